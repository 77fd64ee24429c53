package gateway_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/gateway"
)

// logLines records a log.
type logLines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// line returns the first line with a message.
func (l *logLines) line(t *testing.T, msg string) map[string]any {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for text := range strings.Lines(l.buf.String()) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		if line["msg"] == msg {
			return line
		}
	}
	t.Fatalf("no line %q in the log", msg)
	return nil
}

// TestReadyLine checks that the log has the version, the features and the folders of the gateway.
func TestReadyLine(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	data, err := gateway.OpenData(t.Context(), gateway.DataConfig{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	for _, tt := range []struct {
		cfg  gateway.Config
		want map[string]any
	}{
		{
			gateway.Config{Data: data, Version: "v1.2.3", Feeds: []gateway.Feed{
				{Name: "metronome", Source: metronome{[]string{"GGAL|BYMA|24hs"}, 10 * time.Millisecond}},
				{Name: "other", Source: metronome{[]string{"FAKE|SIM|CI"}, 10 * time.Millisecond}},
			}},
			map[string]any{"version": "v1.2.3", "data": filepath.Join(folder, "rueda.db"), "users": "local", "feeds": "metronome,other", "tls": false, "admin": "none"},
		},
		{
			gateway.Config{Users: data.Users, UsersType: "ldap"},
			map[string]any{"version": "devel", "data": "memory", "users": "ldap", "feeds": "none"},
		},
		{gateway.Config{Users: data.Users}, map[string]any{"users": "custom"}},
	} {
		log := &logLines{}
		tt.cfg.Logger, tt.cfg.Drain = slog.New(slog.NewJSONHandler(log, nil)), time.Millisecond
		c, stop, done := launch(t, tt.cfg)
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		line := log.line(t, "ready")
		if "http://"+line["address"].(string) != c.rest {
			t.Errorf("address %v, want that of %s", line["address"], c.rest)
		}
		for key, want := range tt.want {
			if line[key] != want {
				t.Errorf("%s is %v, want %v", key, line[key], want)
			}
		}
	}
}

// TestJournalInUse checks the error of a second gateway on a folder that another gateway uses.
func TestJournalInUse(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "journal")
	_, stop, done := launch(t, gateway.Config{Drain: time.Millisecond, Journal: gateway.Journal{Folder: folder}})
	_, err := gateway.New(t.Context(), gateway.Config{Journal: gateway.Journal{Folder: folder}})
	if !errors.Is(err, gateway.ErrJournalInUse) || err.Error() != "another gateway uses the journal "+folder {
		t.Errorf("the second one: %v", err)
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
