package subscription_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/recent"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// happenings returns n random events: trades, cancels, corrections, references and statuses.
func happenings(n, instruments int, seed uint64) []market.Event {
	rng := rand.New(rand.NewPCG(seed, 3))
	at := time.Date(2026, 3, 2, 13, 0, 0, 0, time.UTC).UnixNano()
	var done []market.Event
	var all []market.Event
	for i := range n {
		at += rng.Int64N(20e9)
		e := streamtest.Trade(market.Handle(rng.IntN(instruments)), i+1)
		e.Time, e.Price = at, market.Price(9000+rng.IntN(200))*market.Scale/100
		switch k := rng.IntN(60); {
		case k == 0 && len(done) > 0:
			was := done[len(done)-1-rng.IntN(min(len(done), 300))]
			e.Handle, e.Kind, e.TradeID, e.Price, e.Size = was.Handle, market.KindCancel, was.TradeID, was.Price, was.Size
		case k == 1 && len(done) > 0:
			was := done[len(done)-1-rng.IntN(min(len(done), 300))]
			e.Handle, e.Kind, e.TradeID, e.OldPrice, e.OldSize = was.Handle, market.KindCorrect, was.TradeID, was.Price, was.Size
		case k == 2:
			e = market.Event{Kind: market.KindReference, Handle: e.Handle, Time: at, PreviousClose: 88 * market.Scale}
		case k == 3:
			e = market.Event{Kind: market.KindStatus, Handle: e.Handle, Time: at, Phase: market.Halt + market.Phase(rng.IntN(2)), Reason: "volatility"}
		case k == 4:
			e.Time -= rng.Int64N(100e9) // late
			fallthrough
		default:
			done = append(done, e)
		}
		all = append(all, e)
	}
	return all
}

// TestRestart checks a hub that is closed many times, cleanly or not, and opened again. Its source
// resumes, and each event is committed. A client that resumes receives the same messages, bars and
// summaries as one without restarts. The journal has each message byte for byte.
func TestRestart(t *testing.T) {
	names := []string{"A|M|CI", "B|M|CI", "C|M|CI"}
	events := happenings(2500, len(names), 1)
	for i := range events {
		events[i].Sequence = uint64(i + 1)
	}
	plain := &streamtest.House{T: t, Folder: t.TempDir(), Names: names, Numbering: "day", Kept: 10_000}
	plain.Begin()
	want := &streamtest.Received{T: t, Texts: map[string][]string{}}
	plain.Follow(want)
	for _, e := range events {
		streamtest.Publish(t, plain.Hub, e)
		plain.Read(want, false)
	}
	plain.Read(want, true)
	wantState := states(t, plain)
	for _, kept := range []int{1, 10_000} {
		t.Run(fmt.Sprint(kept), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(9, uint64(kept)))
			w := &streamtest.House{T: t, Folder: t.TempDir(), Names: names, Numbering: "day", Kept: kept}
			w.Begin()
			got := &streamtest.Received{T: t, Texts: map[string][]string{}}
			w.Follow(got)
			follows := true
			for _, e := range events {
				streamtest.Publish(t, w.Hub, e)
				w.Hub.Commit()
				if follows {
					w.Read(got, false)
				}
				switch rng.IntN(400) {
				case 0:
					w.Leave(rng.IntN(2) == 0)
					w.Begin()
					follows = false
				case 1, 2:
					if !follows {
						w.Follow(got)
						follows = true
					}
				}
			}
			if !follows {
				w.Follow(got)
			}
			w.Read(got, true)
			for k, list := range want.Texts {
				if !slices.Equal(list, got.Texts[k]) {
					i := 0
					for i < min(len(list), len(got.Texts[k])) && list[i] == got.Texts[k][i] {
						i++
					}
					t.Fatalf("%s: %d messages, not %d; at %d\n%s\nand not\n%s", k, len(got.Texts[k]), len(list), i, at(got.Texts[k], i), at(list, i))
				}
			}
			if s := states(t, w); s != wantState {
				t.Errorf("summaries\n%s\nand not\n%s", s, wantState)
			}
			inJournal(t, w, got)
			w.Leave(true)
		})
	}
	plain.Leave(true)
}

func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return "nothing"
}

// states returns the summary of each instrument.
func states(t *testing.T, w *streamtest.House) (all string) {
	t.Helper()
	for _, name := range w.Names {
		peek(w.Hub, streamtest.ID(name), func(in *hub.Instrument) {
			b, ok := in.AppendSummary(nil)
			all += fmt.Sprintln(ok, string(b))
		})
	}
	return all
}

// inJournal checks that the journal has the messages that were sent.
func inJournal(t *testing.T, w *streamtest.House, got *streamtest.Received) {
	t.Helper()
	w.Hub.Commit()
	for c := range wire.NumChannels {
		if !c.Replays() {
			continue
		}
		for _, name := range w.Names {
			in := lookup(w.Hub, streamtest.ID(name))
			i := 0
			list := got.Texts[streamtest.Key(c, name)]
			err := w.Journal.Read(t.Context(), in.Series(c), journal.Range{Epoch: w.Hub.Epoch()}, func(_ string, r *journal.Row) bool {
				text := string(recent.AppendRow(nil, in.Ident, in.Zone(), r))
				if i >= len(list) || text != list[i] {
					t.Errorf("%s: row %d is\n%s\ntold was\n%s", streamtest.Key(c, name), i, text, at(list, i))
					return false
				}
				i++
				return true
			})
			if err != nil || i != len(list) {
				t.Fatalf("%s: %d rows of %d: %v", streamtest.Key(c, name), i, len(list), err)
			}
		}
	}
}
