package hub_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/internal/engine/book"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/state"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// checkpointed is a hub with so many instruments that a checkpoint takes several pieces.
type checkpointed struct {
	t       *testing.T
	rng     *rand.Rand
	folder  string
	journal *journal.Journal
	hub     *hub.Hub
	handles []market.Handle
	at      int64
	ids     int
	resumes bool   // the source numbers its events, and each is committed
	last    uint64 // number of the newest event
}

const checkpointedInstruments = 600

func (w *checkpointed) begin() {
	w.t.Helper()
	var err error
	if w.journal, err = journal.Open(w.t.Context(), journal.Config{Folder: w.folder, Segment: 40_000, BootID: "same"}); err != nil {
		w.t.Fatal(err)
	}
	w.hub = hub.New(hub.Config{Journal: w.journal})
	if err := w.hub.Restore(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// define defines the instruments. They do not start empty, so a restart must know their state.
func (w *checkpointed) define() {
	w.handles = w.handles[:0]
	for i := range checkpointedInstruments {
		w.handles = append(w.handles, streamtest.Define(w.t, w.hub, fmt.Sprintf("S%d|M|CI", i), func(in *market.Instrument) {
			in.VirtualClock, in.Listed, in.StartsEmpty = true, 1, false
		}))
		if w.resumes {
			w.hub.Number(w.handles[i], "day")
		}
	}
}

// event returns a random event of an instrument. Most events are of the first few instruments.
func (w *checkpointed) event() market.Event {
	i := w.rng.IntN(1 + w.rng.IntN(checkpointedInstruments))
	w.at += 1 + w.rng.Int64N(30e6)
	w.last++
	e := market.Event{Handle: w.handles[i], Time: w.at, Sequence: w.last}
	levels := func(price int64, step int64, n int) (list []market.Level) {
		for k := range n {
			list = append(list, streamtest.Level(price+step*int64(k), 1+w.rng.Int64N(9)))
		}
		return list
	}
	switch w.rng.IntN(12) {
	case 0:
		e.Kind, e.Bids, e.Asks = market.KindSnapshot, levels(100, -1, 1+w.rng.IntN(20)), levels(101, 1, 1+w.rng.IntN(20))
	case 1, 2, 3:
		e.Kind, e.Bids = market.KindUpdate, []market.Level{streamtest.Level(100-w.rng.Int64N(30), w.rng.Int64N(3))}
	case 4:
		e.Kind, e.Phase, e.Reason = market.KindStatus, market.Halt, fmt.Sprint("r", w.rng.IntN(9))
		if w.rng.IntN(2) == 0 {
			e.Phase = market.Open
		}
	case 5:
		e.Kind, e.PreviousClose, e.Settlement, e.OpenInterest = market.KindReference, market.Price(w.rng.Int64N(90))*market.Scale, 7*market.Scale, 3*market.Scale
	case 6:
		e.Kind, e.TradeID = market.KindCancel, fmt.Sprint(w.rng.IntN(w.ids+1))
		e.Price, e.Size = 100*market.Scale, market.Scale
	case 7:
		if w.rng.IntN(10) == 0 {
			e.Kind, e.Reason = market.KindGap, "source"
			break
		}
		fallthrough
	default:
		w.ids++
		e = streamtest.Trade(e.Handle, w.ids)
		e.Sequence = w.last
		e.Time, e.Price = w.at, market.Price(90+w.rng.Int64N(20))*market.Scale
	}
	return e
}

// stand is the state of an instrument that a restart must restore.
type stand struct {
	Counts   journal.Counts
	Phase    market.Phase
	Reason   string
	Bid, Ask market.Level
	Quoted   state.Stamp
	Figures  wire.Figures
	Bars     string
}

func (w *checkpointed) stands() map[string]stand {
	w.hub.Mu().Lock()
	defer w.hub.Mu().Unlock()
	all := map[string]stand{}
	for _, in := range w.hub.Numbered()[1:] {
		if in == nil {
			continue
		}
		s := stand{Counts: in.Counts(), Phase: in.Phase, Reason: in.Reason, Bid: in.Bid, Ask: in.Ask, Quoted: in.Quoted, Figures: in.Summary()}
		for i := range market.NumIntervals {
			t := in.Recent(wire.BarsOf(i))
			s.Bars += fmt.Sprint(" ", t.Last)
		}
		all[in.ID().String()] = s
	}
	return all
}

// numbers returns the newest number of the source in each channel of each instrument but those of
// books: an update of an unknown book has no row, and the source sends it again.
func (w *checkpointed) numbers() map[string]uint64 {
	all := map[string]uint64{}
	list, _ := w.hub.Resume("day")
	for _, x := range list {
		if x.Channel != feed.Books {
			all[fmt.Sprint(x.ID, " ", x.Channel)] = x.Sequence
		}
	}
	return all
}

// books returns the books of the hub by instrument, without those that are not known.
func (w *checkpointed) books() map[string]string {
	w.hub.Mu().Lock()
	defer w.hub.Mu().Unlock()
	all := map[string]string{}
	for _, in := range w.hub.Listed() {
		if !in.Stale && in.Sequences[wire.OrderBook].N > 0 {
			var l book.Levels
			l.Read(&in.Book, 0)
			all[in.ID().String()] = fmt.Sprint(in.Sequences[wire.OrderBook].N, l.Bids, l.Asks)
		}
	}
	return all
}

// TestRestoreBetweenPieces checks that a hub killed at random times restores every counter, status,
// quote, bar and summary, and the numbers of a source that resumes. The journal returns its books.
// At least one kill comes while a checkpoint is written in pieces.
func TestRestoreBetweenPieces(t *testing.T) {
	unfinished := 0
	for seed := range uint64(streamtest.Soak(40)) {
		w := &checkpointed{t: t, rng: rand.New(rand.NewPCG(seed, 5)), folder: t.TempDir(), at: time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC).UnixNano(), resumes: seed%2 == 1}
		w.begin()
		w.define()
		for range 4 {
			for range 1 + w.rng.IntN(400) {
				streamtest.Publish(t, w.hub, w.event())
				if w.resumes || w.rng.IntN(60) == 0 {
					w.hub.Commit()
				}
			}
			w.hub.Commit()
			if w.journal.CheckpointPending() {
				unfinished++
			}
			w.kill(fmt.Sprint("seed ", seed))
		}
		if err := w.journal.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if unfinished == 0 {
		t.Error("no kill came while a checkpoint was written")
	}
	t.Logf("figure: %d kills while a checkpoint was written", unfinished)
}

// kill restores a hub from a copy of the journal, as after a kill, and compares it with the
// original. In half of the cases the test continues with the restored hub, otherwise with the
// original.
func (w *checkpointed) kill(what string) {
	w.t.Helper()
	stands, books := w.stands(), w.books()
	killed := *w
	killed.folder = filepath.Join(w.t.TempDir(), "journal")
	if err := os.CopyFS(killed.folder, os.DirFS(w.folder)); err != nil {
		w.t.Fatal(err)
	}
	epoch := w.journal.Epoch()
	killed.begin()
	if killed.journal.Epoch() != epoch {
		w.t.Fatalf("%s: a new epoch", what)
	}
	if got, numbers := killed.numbers(), w.numbers(); !maps.Equal(got, numbers) || w.resumes != (len(numbers) > 0) {
		w.t.Fatalf("%s: the numbers of the source are\n%v\nwant\n%v", what, got, numbers)
	}
	got := killed.stands()
	for id, want := range stands {
		if got := got[id]; !reflect.DeepEqual(got, want) {
			w.t.Fatalf("%s: %s\n got %+v\nwant %+v", what, id, got, want)
		}
	}
	if len(got) != len(stands) {
		w.t.Fatalf("%s: %d instruments, want %d", what, len(got), len(stands))
	}
	compared := 0
	for name, want := range books {
		b, err := killed.journal.BookAt(w.t.Context(), streamtest.ID(name), 1<<62, math.MaxInt64)
		if text := fmt.Sprint(b.N, b.Bids, b.Asks); err != nil || text != want {
			w.t.Fatalf("%s: the book of %s is %s, %v; want %s", what, name, text, err, want)
		}
		if compared++; compared == 50 {
			break
		}
	}
	gone := &killed
	if w.rng.IntN(2) == 0 {
		gone = &checkpointed{journal: w.journal}
		*w = killed
		w.define()
	}
	if err := gone.journal.Close(); err != nil {
		w.t.Fatal(err)
	}
}
