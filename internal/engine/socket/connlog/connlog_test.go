package connlog

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// runLog runs a Log until do returns, and returns its lines.
func runLog(t *testing.T, level slog.Level, do func(*Log)) (lines []string) {
	t.Helper()
	var out bytes.Buffer
	l := New(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: level})))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Run(ctx)
	}()
	do(l)
	stop()
	<-done
	for line := range strings.Lines(out.String()) {
		lines = append(lines, line)
	}
	return lines
}

func TestLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := netip.MustParseAddr("203.0.113.7")
		lines := runLog(t, slog.LevelInfo, func(l *Log) {
			l.Add(Event{Kind: Connected, Address: from})
			l.Add(Event{Kind: Authenticated, Address: from, User: "u1"})
			l.Add(Event{Kind: Slow, Address: from, User: "u1"})
			l.Add(Event{Kind: Closed, Address: from, User: "u1", Reason: "slow_client", Duration: 90 * time.Second, Bytes: 1234})
			l.Add(Event{Kind: Closed, Reason: "gone"})
			synctest.Wait()
		})
		want := []map[string]any{
			{"msg": "client connected", "address": "203.0.113.7"},
			{"msg": "client authenticated", "address": "203.0.113.7", "user": "u1"},
			{"msg": "client is slow", "address": "203.0.113.7", "user": "u1"},
			{"msg": "client closed", "address": "203.0.113.7", "user": "u1", "reason": "slow_client", "duration": 90e9, "bytes": 1234.0},
			{"msg": "client closed", "reason": "gone", "duration": 0.0, "bytes": 0.0},
		}
		if len(lines) != len(want) {
			t.Fatalf("%d lines: %v", len(lines), lines)
		}
		for i, line := range lines {
			var got map[string]any
			if err := json.Unmarshal([]byte(line), &got); err != nil {
				t.Fatal(err)
			}
			delete(got, "time")
			delete(got, "level")
			if len(got) != len(want[i]) {
				t.Errorf("%s: want %v", line, want[i])
			}
			for key, value := range want[i] {
				if got[key] != value {
					t.Errorf("%s: %s is %v, want %v", line, key, got[key], value)
				}
			}
		}
	})
}

// TestFlood checks that a flood of connections writes a bounded number of lines in a second, and
// that the others are counted.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = 10 * queueSize
		lines := runLog(t, slog.LevelInfo, func(l *Log) {
			for range all {
				l.Add(Event{Kind: Connected})
				synctest.Wait()
			}
			time.Sleep(1500 * time.Millisecond)
			l.Add(Event{Kind: Connected})
			synctest.Wait()
		})
		if len(lines) != PerSecond+2 {
			t.Fatalf("%d lines", len(lines))
		}
		var left struct{ Count int }
		if err := json.Unmarshal([]byte(lines[PerSecond]), &left); err != nil || left.Count != all-PerSecond {
			t.Errorf("%s%v", lines[PerSecond], err)
		}
	})
}

// TestFullQueue checks that Add does not block when the output of the log does.
func TestFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := runLog(t, slog.LevelInfo, func(l *Log) {
			for range 3 * queueSize {
				l.Add(Event{Kind: Connected}) // Run gets no time in between, or some
			}
		})
		if n := len(lines); n < 2 || n > PerSecond+1 || !strings.Contains(lines[n-1], "not logged") {
			t.Errorf("%d lines, the last is %s", n, lines[n-1])
		}
	})
}

func TestQuietLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := runLog(t, slog.LevelWarn, func(l *Log) {
			for range 3 * queueSize {
				l.Add(Event{Kind: Connected})
			}
		})
		if len(lines) != 0 {
			t.Errorf("%d lines", len(lines))
		}
	})
}
