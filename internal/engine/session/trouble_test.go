package session

import (
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestTroubleEnds checks that a fault that has ended leaves no state.
func TestTroubleEnds(t *testing.T) {
	now := time.Now()
	hub := hub.New(hub.Config{})
	env := &Env{Registry: &Registry{}, Origin: now, Fault: func(string, market.InstrumentID) (string, *wire.Fault) { return "", nil }}
	id := &Identity{User: "u", Family: "f", Expires: now.Add(time.Hour)}
	var s Session
	s.Start(env, Peer{Identity: id}, subscription.NewShard(hub, func(bool) {}), nil, now)
	for _, fault := range []string{"stall", "slow_down"} {
		s.Handle(now, Event{Kind: Text, Message: []byte(`{"action":"sim","fault":"` + fault + `"}`)})
		if s.optional == nil || s.sim == nil {
			t.Fatalf("no %s", fault)
		}
		for range 30 {
			now = now.Add(time.Second)
			s.Handle(now, Event{Kind: Timer})
			n := len(s.Output(now, nil, 1<<16))
			s.Sent(now, n, n)
			s.Handle(now, Event{Kind: Text, Message: []byte(`{"action":"pong"}`)})
		}
		if s.optional != nil || s.out != nil {
			t.Errorf("after %s it keeps %+v %+v", fault, s.optional, s.out)
		}
	}
}

// TestSpoil checks the corruption of single messages in frames with headers of every length.
func TestSpoil(t *testing.T) {
	message := func(kind string, size int) string {
		m := `{"type":"` + kind + `","S":"A","I":"A|B|C",`
		if kind == "O" {
			return m + `"B":"` + strings.Repeat("b", size) + `","K":7}`
		}
		return m + `"X":"` + strings.Repeat("x", size) + `"}`
	}
	id := market.InstrumentID{Symbol: "A", Market: "B", Term: "C"}
	other := market.InstrumentID{Symbol: "A", Market: "B", Term: "D"}
	for _, size := range []int{0, 60, 77, 80, 300, 70_000} {
		frames := func(messages ...string) string {
			var b []byte
			for _, m := range messages {
				b = wire.AppendText(b, []byte(m))
			}
			return string(b)
		}
		q, trade, book := message("Q", size), message("T", size), message("O", size)
		all := frames(q, trade, book, trade, book, q)
		x := &simFaults{gap: newCorruption("T", other), checksum: newCorruption("O", id)}
		spoilt := strings.Replace(book, `"K":7}`, `"K":4294967288}`, 1)
		if got := string(x.corrupt([]byte(all))); got != frames(q, trade, spoilt, trade, book, q) || x.gap == nil || x.checksum != nil {
			t.Errorf("size %d: the checksum: %.300q", size, got)
		}
		x = &simFaults{gap: newCorruption("T", market.InstrumentID{}), checksum: newCorruption("O", id)}
		if got := string(x.corrupt([]byte(all))); got != frames(q, spoilt, trade, book, q) || *x != (simFaults{}) {
			t.Errorf("size %d: both: %.300q", size, got)
		}
		x.gap = newCorruption("T", id)
		if got := x.corrupt([]byte(frames(trade))); len(got) > 0 {
			t.Errorf("size %d: the only one: %.300q", size, got)
		}
		if got := string(x.corrupt([]byte(all))); got != all {
			t.Errorf("size %d: when all is over: %.300q", size, got)
		}
	}
}
