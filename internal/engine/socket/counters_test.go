package socket

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// safeBuffer is the output of a log, which goroutines write while a test reads it.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// records returns the records with a message.
func (s *safeBuffer) records(t *testing.T, msg string) (list []map[string]any) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range strings.Lines(s.b.String()) {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r["msg"] == msg {
			list = append(list, r)
		}
	}
	return list
}

// TestCounters checks that connections, their ends and their bytes are counted and logged, on every
// transport.
func TestCounters(t *testing.T) { forEachTransport(t, testCounters) }

func testCounters(t *testing.T, tr transport) {
	var log safeBuffer
	s := openServer(t, tr, func(c *Config) { c.Logger = slog.New(slog.NewJSONHandler(&log, nil)) })
	live := s.dialSmallBuffer()
	live.auth("ana")
	bad := s.dialSmallBuffer()
	bad.send(`{"action":"auth_token","token":"bad"}`)
	bad.skipTo()
	bad.nc.Close()
	rude := s.dialSmallBuffer()
	rude.auth("eva")
	rude.write(frame(3, ""))
	rude.skipTo()
	rude.nc.Close()
	gone := s.dialSmallBuffer()
	gone.nc.Close()
	waitFor(t, "the ends of three connections", func() bool { return s.Stats().Open == 1 })

	total, stale := s.Counters()
	for i, late := range stale {
		if late {
			t.Errorf("shard %d does not answer", i)
		}
	}
	if total.Opened != 4 || total.Closed["invalid_token"] != 1 || total.Closed["protocol_error"] != 1 || total.Closed["gone"] != 1 || len(total.Closed) != 3 {
		t.Errorf("%d opened, closed %v", total.Opened, total.Closed)
	}
	if total.Bytes < 300 || total.Bytes > 10_000 { // two Successes, an Error
		t.Errorf("%d bytes", total.Bytes)
	}
	waitFor(t, "the log", func() bool { return len(log.records(t, "client closed")) == 3 })
	if n := len(log.records(t, "client connected")); n != 4 {
		t.Errorf("%d connected", n)
	}
	for i, r := range log.records(t, "client authenticated") {
		if want := []string{"u-ana", "u-eva"}[i]; r["user"] != want || r["address"] != "127.0.0.1" {
			t.Errorf("authenticated: %v", r)
		}
	}
	for _, r := range log.records(t, "client closed") {
		// The writer of a goroutine may report its last write after the end.
		if r["reason"] == "protocol_error" && (r["user"] != "u-eva" || tr.loop && r["bytes"].(float64) < 100) {
			t.Errorf("closed: %v", r)
		}
		if r["reason"] == "invalid_token" && r["user"] != nil {
			t.Errorf("closed: %v", r)
		}
	}
	live.echo("still here")
}

// TestSlowIsCounted checks that a client which begins to read too slowly is counted and logged.
func TestSlowIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log safeBuffer
		s := start(t, func(c *Config) { c.Logger = slog.New(slog.NewJSONHandler(&log, nil)) })
		c := dial(t, s)
		c.auth("ana")
		c.write(frame(opText, `{"action":"ping"}`)) // the answer is not read
		advance(300 * time.Millisecond)
		synctest.Wait()
		total, _ := s.Counters()
		if total.Slow != 1 || total.Opened != 1 || len(total.Closed) != 0 {
			t.Errorf("%+v", total)
		}
		if r := log.records(t, "client is slow"); len(r) != 1 || r[0]["user"] != "u-ana" {
			t.Errorf("slow: %v", r)
		}
	})
}

// TestDeliveryIsCounted checks the counters of messages and the time of their delivery, on every
// transport.
func TestDeliveryIsCounted(t *testing.T) { forEachTransport(t, testDeliveryIsCounted) }

func testDeliveryIsCounted(t *testing.T, tr transport) {
	p := newPublisher(t)
	s := openServer(t, tr, p.config)
	const clients, trades = 3, 20
	var all []*client
	for range clients {
		c := s.connect("")
		c.auth("ana")
		c.subscribe()
		all = append(all, c)
	}
	for range trades {
		p.publish(1)
		for _, c := range all {
			c.want(`"type":"T"`)
		}
	}
	total, _ := s.Counters()
	// Each shard with readers reads a message once. There are two shards.
	if f := total.Stream; f.Deliveries != clients*trades || f.Messages < trades || f.Messages > 2*trades {
		t.Errorf("%+v", f)
	}
	// The time of a write ends after the client may have read it, so that it has no exact bound.
	writes := total.Delivery.Count()
	if sum := total.Delivery.Sum(); writes < trades || writes > clients*trades || sum <= 0 || sum > time.Minute {
		t.Errorf("%d writes took %v", writes, sum)
	}
}
