package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/identity/store"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// TestReportUsage reports the usage of two users, one of them for all markets.
func TestReportUsage(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	data, err := gateway.OpenData(t.Context(), gateway.DataConfig{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	ana, err := data.Users.Add(t.Context(), local.NewUser{Username: "ana", Password: "a long password"})
	if err != nil {
		t.Fatal(err)
	}
	if err := data.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), filepath.Join(folder, "rueda.db"))
	if err != nil {
		t.Fatal(err)
	}
	first := time.Date(2026, 11, 2, 14, 30, 0, 0, time.UTC)
	row := func(user, market, level string, delay int, days uint32, connections int) store.Usage {
		return store.Usage{Month: "2026-11", UserID: user, Market: market, Level: level, Delay: delay, Days: days, Connections: connections, First: first, Last: first.Add(time.Hour)}
	}
	other := row(ana.ID, "BYMA", "trades", 0, 1, 1)
	other.Month = "2026-10"
	err = s.AddUsage(t.Context(), []store.Usage{
		row(ana.ID, "BYMA", "trades", 0, 0b1110, 2), row(ana.ID, "BYMA", "order_book", 900, 0b10, 0),
		row("us_gone", "*", "trades", 0, 0b1, 1), row("us_gone", "BYMA", "trades", 0, 0b11, 1), row("us_gone", "SIM", "quotes", 0, 0b1, 1), other,
	})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	report := func(args ...string) string {
		t.Helper()
		var out, talk bytes.Buffer
		args = append([]string{"report", "usage", "--data", folder, "--month", "2026-11"}, args...)
		if status := run(t.Context(), args, command.Streams{In: strings.NewReader(""), Out: &out, Err: &talk}); status != 0 {
			t.Fatalf("%q: status %d, %s", args, status, talk.String())
		}
		return out.String()
	}
	lines := func(list ...string) string { return strings.Join(list, "\n") + "\n" }
	const span = "2026-11-02T14:30:00Z\t2026-11-02T15:30:00Z"
	for what, c := range map[string]struct{ got, want string }{
		"rows": {report(), lines("ana\tBYMA\torder_book\tdelayed 15m\t1\t0\t"+span, "ana\tBYMA\ttrades\treal time\t3\t2\t"+span,
			"us_gone\t*\ttrades\treal time\t1\t1\t"+span, "us_gone\tBYMA\ttrades\treal time\t2\t1\t"+span, "us_gone\tSIM\tquotes\treal time\t1\t1\t"+span)},
		"totals": {report("--totals"), lines("BYMA\torder_book\tdelayed 15m\t1\t1\t0", "BYMA\ttrades\treal time\t2\t5\t4",
			"SIM\tquotes\treal time\t1\t1\t1", "SIM\ttrades\treal time\t1\t1\t1")},
		"totals of a market": {report("--totals", "--market", "BYMA"), lines("BYMA\torder_book\tdelayed 15m\t1\t1\t0", "BYMA\ttrades\treal time\t2\t5\t4")},
		"CSV": {report("--csv", "--market", "SIM"), lines("month,user_id,username,market,level,delay_seconds,days,connections,first,last",
			"2026-11,us_gone,,*,trades,0,1,1,2026-11-02T14:30:00Z,2026-11-02T15:30:00Z", "2026-11,us_gone,,SIM,quotes,0,1,1,2026-11-02T14:30:00Z,2026-11-02T15:30:00Z")},
		"CSV of totals": {report("--csv", "--totals", "--market", "SIM"), lines("month,market,level,delay_seconds,users,user_days,connections",
			"2026-11,SIM,quotes,0,1,1,1", "2026-11,SIM,trades,0,1,1,1")},
	} {
		if c.got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", what, c.got, c.want)
		}
	}
	type total struct {
		Market, Level string
		Delay         int `json:"delay_seconds"`
		Users         int
		Days          int `json:"user_days"`
		Connections   int
	}
	var all struct {
		Month  string
		Rows   []json.RawMessage
		Totals []total
	}
	if err := json.Unmarshal([]byte(report("--json")), &all); err != nil {
		t.Fatal(err)
	}
	if all.Month != "2026-11" || len(all.Rows) != 5 || !slices.Contains(all.Totals, total{"BYMA", "trades", 0, 2, 5, 4}) {
		t.Errorf("JSON: %+v", all)
	}
}
