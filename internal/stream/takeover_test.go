package stream

import (
	"slices"
	"testing"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// halts publishes statuses of an instrument.
func halts(t *testing.T, h *Hub, hd market.Handle, phases ...market.Phase) {
	t.Helper()
	for _, p := range phases {
		publish(t, h, market.Event{Kind: market.KindStatus, Handle: hd, Phase: p})
	}
}

// takeStatuses reads what waits, the frames that go before an answer first: the N of the statuses of an
// instrument that are not a state, and of those that are.
func (c *client) takeStatuses(name string) (live, states []uint64) {
	c.t.Helper()
	list := append(frames(c.t, c.sub.TakeCarry(nil)), c.read(1<<20, false)...)
	for _, m := range list {
		switch {
		case m.Type != "H" || m.I != name:
		case m.R:
			states = append(states, m.N)
		default:
			live = append(live, m.N)
		}
	}
	return live, states
}

// TestStatusesOfAnotherOwner has a pattern take an instrument over, in each way, before its own state
// was sent: no status of the instrument is left out, and one of an instrument that is new comes after its
// state.
func TestStatusesOfAnotherOwner(t *testing.T) {
	pattern := []Item{{Channel: wire.Status, ID: id("*|M|*")}}
	exact := []Item{{Channel: wire.Status, ID: id("A|M|CI")}}
	for name, takeOver := range map[string]func(*Subscriber, func()){
		"replace": func(s *Subscriber, publish func()) {
			s.Subscribe(pattern, Options{Replace: true})
			publish()
		},
		"unsubscribe": func(s *Subscriber, publish func()) {
			s.Subscribe(pattern, Options{})
			publish()
			s.Unsubscribe(exact)
		},
		"unsubscribe first": func(s *Subscriber, publish func()) {
			s.Subscribe(pattern, Options{})
			s.Unsubscribe(exact)
			publish()
		},
	} {
		for _, instruments := range []int{1, 3 * stateBatch} {
			h := New(Config{})
			a := define(t, h, "A|M|CI", nil)
			others := many(t, h, instruments)
			sh := h.NewShard(func(bool) {})
			c := newClient(t, sh)
			subscribe(t, c.sub, wire.Status, "A|M|CI")
			c.read(1<<20, false)
			halts(t, h, a, market.Halt) // 2
			turn(sh)
			c.read(1<<20, false)
			last := others[len(others)-1]
			takeOver(c.sub, func() {
				halts(t, h, a, market.Auction, market.Halt, market.Open) // 3 to 5
				halts(t, h, last, market.Halt, market.Open)
			})
			turn(sh)
			live, states := c.takeStatuses("A|M|CI")
			if !slices.Equal(live, []uint64{3, 4, 5}) || len(states) > 1 {
				t.Errorf("%s, %d instruments: got %d, states %d", name, instruments, live, states)
			}
			seen := false
			for _, m := range c.raw {
				if m.I == h.handles[last].id.String() && m.Type == "H" {
					seen = seen || m.R
					if !seen {
						t.Errorf("%s, %d instruments: status %d came before the state", name, instruments, m.N)
					}
				}
			}
			if !seen {
				t.Errorf("%s: no state of what is new", name)
			}
		}
	}
}

// TestStateOfAnotherOwner: an identifier that goes before its state was sent leaves it to those that
// have its instruments.
func TestStateOfAnotherOwner(t *testing.T) {
	h := New(Config{})
	define(t, h, "A|M|CI", nil)
	sh := h.NewShard(func(bool) {})
	for _, stays := range []string{"A|M|CI", "A|*|*"} {
		c := newClient(t, sh)
		subscribe(t, c.sub, wire.Status, "*|M|*")
		c.sub.Subscribe([]Item{{Channel: wire.Status, ID: id(stays)}}, Options{})
		c.sub.Unsubscribe([]Item{{Channel: wire.Status, ID: id("*|M|*")}})
		turn(sh)
		if _, states := c.takeStatuses("A|M|CI"); !slices.Equal(states, []uint64{1}) {
			t.Errorf("%s: states %d", stays, states)
		}
		c.sub.Close()
	}
}

// many defines instruments.
func many(t *testing.T, h *Hub, n int) (list []market.Handle) {
	t.Helper()
	for i := range n {
		list = append(list, define(t, h, "S"+string(rune('A'+i/26))+string(rune('A'+i%26))+"|M|CI", nil))
	}
	return list
}
