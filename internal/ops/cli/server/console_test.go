package server

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/gateway"
)

// TestConsole checks which records of a log the console shows, and how.
func TestConsole(t *testing.T) {
	t.Parallel()
	data, err := gateway.OpenData(t.Context(), gateway.DataConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	ana, err := data.Users.Add(t.Context(), local.NewUser{Username: "ana", Password: "correct horse battery staple"})
	if err != nil {
		t.Fatal(err)
	}
	var out, log strings.Builder
	next := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	l := withConsole(&out, next, data.Users, nil)
	l.Info("request", "status", 200)
	l.Info("client connected", "address", "127.0.0.1")
	l.Info("client authenticated", "address", "127.0.0.1", "user", ana.ID)
	l.Info("client is slow", "address", "127.0.0.1", "user", ana.ID)
	l.With("feed", "x").Info("client closed", "address", "127.0.0.1", "reason", "a\u001b[2Jb", "duration", 1500*time.Millisecond, "bytes", uint64(2048))
	l.Info("fault on request", "user", "us_none", "type", "halt", "reason", "it is halted")
	l.Warn("a warning")
	var got []string
	for line := range strings.Lines(out.String()) {
		_, text, _ := strings.Cut(strings.TrimSpace(line), "  ")
		got = append(got, text)
	}
	want := []string{
		"connected     ana from 127.0.0.1",
		"slow          ana from 127.0.0.1 reads too slowly",
		"disconnected  a client without a login from 127.0.0.1: a\ufffd[2Jb after 1.5s, 2.0 kB sent",
		"fault         halt: it is halted (us_none)",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !strings.Contains(log.String(), "a warning") || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("the log has %q", log.String())
	}
	before, connected := out.String(), 0
	verbose := withConsole(&out, slog.New(slog.NewTextHandler(&log, nil)), data.Users, func() { connected++ })
	verbose.Info("client authenticated", "address", "127.0.0.1", "user", ana.ID)
	if connected != 1 || out.String() != before || !strings.Contains(log.String(), "client authenticated") {
		t.Errorf("%d connections, a verbose log has %q, and the console %q", connected, log.String(), out.String())
	}
}
