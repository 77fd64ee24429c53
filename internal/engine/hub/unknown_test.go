package hub_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestUnknownUntilStated checks the statuses that a client gets of instruments whose source has not
// stated one at first, over three runs in one epoch. A status is the symbol, N, the phase, and
// "now" for the current state.
func TestUnknownUntilStated(t *testing.T) {
	type step struct {
		defined market.Phase // of a definition
		event   market.Event // published instead, if it has a kind
		symbol  string
		want    string
	}
	define := func(symbol string, p market.Phase, want string) step {
		return step{defined: p, symbol: symbol, want: want}
	}
	state := func(symbol string, p market.Phase, want string) step {
		return step{event: market.Event{Kind: market.KindStatus, Phase: p}, symbol: symbol, want: want}
	}
	restart := func(symbol, want string) step {
		return step{event: market.Event{Kind: market.KindGap, Reason: hub.ReplayRestarted}, symbol: symbol, want: want}
	}
	folder := t.TempDir()
	for i, run := range []struct {
		begin string
		steps []step
	}{
		{"", []step{
			define("A", market.Unknown, "A 1 unknown"),
			define("B", market.Unknown, "B 1 unknown"),
			define("C", market.NoPhase, "C 1 open"),
			define("D", market.Unknown, "D 1 unknown"),
			define("A", market.Unknown, ""),
			state("A", market.Open, "A 2 open"),
			define("A", market.Unknown, ""),
			define("A", market.NoPhase, ""),
			state("C", market.Unknown, "C 2 unknown"),
		}},
		{"A 2 open now, B 1 unknown now, C 2 unknown now, D 1 unknown now", []step{
			define("A", market.Unknown, ""),
			define("B", market.NoPhase, ""),
			define("C", market.Open, "C 3 open"),
			state("B", market.Open, "B 2 open"),
			define("D", market.Unknown, ""),
			state("D", market.Halt, "D 2 halt"),
		}},
		{"A 2 open now, B 2 open now, C 3 open now, D 2 halt now", []step{
			define("A", market.NoPhase, ""),
			define("B", market.Halt, "B 3 halt"),
			define("D", market.Unknown, ""),
			restart("D", "D 3 gap, D 4 unknown"),
			restart("D", "D 5 gap"),
			state("D", market.Open, "D 6 open"),
		}},
	} {
		r := streamtest.Restart(t, folder, hub.Config{})
		c := streamtest.NewClient(t, r.Shard)
		read := func() string {
			r.Hub.Commit()
			streamtest.Turn(r.Shard)
			var list []string
			for _, m := range c.Read(1<<20, false) {
				if m.Type == "H" {
					list = append(list, strings.TrimSpace(fmt.Sprint(m.I[:1], " ", m.N, " ", m.E, " ", map[bool]string{true: "now"}[m.R])))
				}
			}
			return strings.Join(list, ", ")
		}
		streamtest.Subscribe(t, c.Sub, wire.Status, "*|*|*")
		if got := read(); got != run.begin {
			t.Errorf("run %d begins with %q, want %q", i, got, run.begin)
		}
		handles := map[string]market.Handle{}
		edit := func(p market.Phase) func(*market.Instrument) {
			return func(in *market.Instrument) {
				in.Phase, in.NoBook, in.QuotesFromFeed, in.VirtualClock, in.Listed = p, true, true, true, 1
			}
		}
		for j, s := range run.steps {
			if s.event.Kind == 0 {
				handles[s.symbol] = streamtest.Define(t, r.Hub, s.symbol+"|M|CI", edit(s.defined))
			} else {
				s.event.Handle = handles[s.symbol]
				streamtest.Publish(t, r.Hub, s.event)
			}
			if got := read(); got != s.want {
				t.Errorf("run %d, step %d: %q, want %q", i, j, got, s.want)
			}
		}
		r.Leave()
	}
}
