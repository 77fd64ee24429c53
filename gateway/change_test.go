package gateway

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/base/certificate/certtest"
	"github.com/ruedahq/rueda/internal/identity/database"
	"github.com/ruedahq/rueda/market"
)

// changeLog keeps the changes of settings in the audit log, and fails while broken is set.
type changeLog struct {
	database.Store
	rows   []audit.Event
	broken error
}

func (l *changeLog) Append(_ context.Context, events ...audit.Event) error {
	if l.broken == nil {
		l.rows = append(l.rows, events...)
	}
	return l.broken
}

// TestChange checks that what cannot change is refused with a reason and changes nothing, and what
// the audit log has. internal/ops/cli changes each setting of a running
func TestChange(t *testing.T) {
	data, err := OpenData(t.Context(), DataConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	rows := &changeLog{Store: data.db.Store}
	data.db.Store = rows
	level := new(slog.LevelVar)
	hours := market.Schedule{Sessions: []market.Session{{Start: time.Hour, End: 2 * time.Hour, Phase: market.Open}}}
	g, err := New(t.Context(), Config{
		Listen: "127.0.0.1:0", Data: data, LogLevel: level,
		Markets: []market.Market{{ID: "OPEN"}, {ID: "HOURS", Schedule: hours}},
	})
	if err != nil {
		t.Fatal(err)
	}
	debug := slog.LevelDebug
	tls := TLS(certtest.Write(t, t.TempDir(), "x"))
	refused := func(c Change, want string) {
		t.Helper()
		c.Names, c.LogLevel = []string{"log.level"}, &debug
		if err := g.Change(t.Context(), Caller{}, c); err == nil || !strings.Contains(err.Error(), want) || level.Level() != slog.LevelInfo {
			t.Errorf("%v, level %v; want %s", err, level, want)
		}
	}
	refused(Change{TLS: &tls}, "only at the start")
	refused(Change{AdminTLS: &tls}, "only at the start")
	refused(Change{Markets: []market.Market{{ID: "OPEN", Schedule: hours}}}, "needs a restart")
	refused(Change{Markets: []market.Market{{ID: "HOURS"}}}, "needs a restart")
	refused(Change{Markets: []market.Market{{ID: "NEW", Schedule: hours}}}, "needs a restart")
	refused(Change{Markets: []market.Market{{ID: ""}}}, "market")
	if len(rows.rows) != 0 {
		t.Errorf("rows of changes that were refused: %+v", rows.rows)
	}
	names := []string{"log.level", "limits.sockets"}
	if err := g.Change(t.Context(), Caller{Actor: "administrator (ana)"}, Change{Names: names, LogLevel: &debug}); err != nil || level.Level() != slog.LevelDebug {
		t.Errorf("%v, level %v", err, level)
	}
	info := slog.LevelInfo
	if err := g.Change(t.Context(), Caller{}, Change{Names: make([]string, 200), LogLevel: &info}); err != nil || level.Level() != slog.LevelInfo {
		t.Errorf("%v, level %v", err, level)
	}
	if len(rows.rows) != 2 || rows.rows[0].Detail != "configuration: log.level, limits.sockets" || rows.rows[0].Actor != "administrator (ana)" ||
		rows.rows[1].Actor != "gateway" || len(rows.rows[1].Detail) > 220 || !strings.HasSuffix(rows.rows[1].Detail, " and others") {
		t.Errorf("rows: %+v", rows.rows)
	}
	rows.broken = errors.New("database is down")
	if err := g.Change(t.Context(), Caller{}, Change{Names: names, LogLevel: &debug}); !errors.Is(err, ErrNotRecorded) || level.Level() != slog.LevelInfo {
		t.Errorf("without the audit log: %v, level %v", err, level)
	}
}
