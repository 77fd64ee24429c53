package client_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/ruedatest"
)

// TestFirstTradeMissed checks that trades are marked and reported that a restart has hidden of an
// instrument without a trade before.
func TestFirstTradeMissed(t *testing.T) {
	t.Parallel()
	var gate sync.Mutex
	s, c := start(t, ruedatest.Config{}, barred(&gate), client.Set{Trades: []string{ggal, al30}})
	p := &trades{s: s}
	var marked []bool
	var recovered []client.Recovered
	follow(t, c, newAccount(t), 2, func(ev client.Event) {
		switch ev := ev.(type) {
		case client.StateChange:
			if ev.State == client.Live && p.n == 0 {
				p.upTo(1)
			}
		case *client.Trade:
			switch {
			case ev.Instrument.String() == al30:
				marked = append(marked, ev.Replayed)
			case ev.N == 1:
				gate.Lock()
				s.Restart()
				s.Trade(al30, "100", "1")
				s.Trade(al30, "100", "2")
				p.upTo(2)
				stored(t, s, 2)
				gate.Unlock()
			}
		case client.Recovered:
			if recovered = append(recovered, ev); ev.Series.Instrument.String() == al30 {
				s.Trade(al30, "100", "3")
				p.upTo(3)
			}
		}
	}, func() bool { return len(marked) == 3 })
	if !slices.Equal(marked, []bool{true, true, false}) {
		t.Errorf("marked %v", marked)
	}
	if !slices.ContainsFunc(recovered, func(r client.Recovered) bool {
		return r.Series.Instrument.String() == al30 && r.From == 1 && r.To == 2
	}) {
		t.Errorf("%v", recovered)
	}
}
