package replay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/internal/data/replay/replaytest"
	"github.com/ruedahq/rueda/internal/data/verify"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

// intoJournal plays a source into a hub with a journal, and returns the folder of the journal. It
// stops before the given pass; 0 means at the end.
func intoJournal(t *testing.T, source *Source, pass int) string {
	t.Helper()
	folder := t.TempDir()
	j, err := journal.Open(t.Context(), journal.Config{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	h := hub.New(hub.Config{Journal: j})
	if err := h.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = h.Run(ctx) })
	err = source.Run(ctx, &passes{h, source, pass})
	if pass > 0 && !errors.Is(err, errEnough) || pass == 0 && err != nil {
		t.Error(err)
	}
	cancel()
	running.Wait()
	h.Commit()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return folder
}

var errEnough = errors.New("enough")

// passes is a sink that ends before a pass.
type passes struct {
	feed.Sink
	source *Source
	pass   int
}

func (p *passes) Publish(events []market.Event) error {
	if p.pass > 0 && p.source.Stats().Passes >= p.pass {
		return errEnough
	}
	return p.Sink.Publish(events)
}

// TestLoopVerifies checks that nothing is wrong with the rows of a recording that is played three
// times, and that each round is checked as the first: books, quotes, numbers, times.
func TestLoopVerifies(t *testing.T) {
	w := replaytest.Binance{Futures: true}
	w.Snapshot(begin, begin/1e6, 2, []replaytest.Text{{"99", "1"}}, []replaytest.Text{{"101", "1"}})
	for i := range int64(300) {
		at, id := int64(begin)+i*50e6, uint64(i+2)
		w.Depth(at, at/1e6, id, id, id-1, []replaytest.Text{{"98", "1"}, {"99", string(rune('1' + i%7))}}, nil)
		w.Quote(at, at/1e6, id, replaytest.Text{"99", string(rune('1' + i%7))}, replaytest.Text{"101", "1"})
		w.Trade(at, at/1e6, id, "100", "1", i%3 == 0)
	}
	for _, s := range append(samples(), &sample{name: "Binance", data: w.Bytes}) {
		t.Run(s.name, func(t *testing.T) {
			path := s.save(t, nil)
			judged := func(rounds int) [2]uint64 {
				folder := intoJournal(t, open(t, path, Config{Speed: -1, FromName: true, Loop: rounds > 1}), rounds+1-b2i(rounds == 1)*2)
				r, err := verify.Journal(t.Context(), folder, 5, nil)
				if err != nil {
					t.Fatal(err)
				}
				if r.Wrong() > 0 {
					var text strings.Builder
					_ = r.WriteText(&text)
					t.Fatalf("%d rounds:\n%s", rounds, text.String())
				}
				return [2]uint64{r.Result(verify.Chain).Judged, r.Result(verify.Sequence).Judged}
			}
			one, three := judged(1), judged(3)
			if three[0] < 3*one[0]-10 || three[1] < 3*one[1]-20 || one[1] < 500 {
				t.Errorf("%v judged in one round, %v in three", one, three)
			}
		})
	}
}

// crossedFile returns a file of MBO without statuses whose book is crossed before the open. The
// sell at 9.99 and the buy at 10.01 rest until an auction, which the file does not name.
func crossedFile() []byte {
	w := &replaytest.DBN{Version: 3}
	w.Header("XNAS.ITCH", replaytest.SchemaMBO)
	id := uint64(0)
	order := func(second int64, action, side byte, of uint64, cents int64, size uint32) {
		if action == 'A' {
			id++
			of = id
		}
		at := opening + second*1e9
		w.MBO(&replaytest.Record{Instrument: 7, Time: at, Receive: at, Action: action, Side: side, OrderID: of, Price: cents * 1e7, Size: size, Flags: replaytest.Last})
	}
	order(0, 'R', 'N', 0, 0, 0)
	order(1, 'A', 'B', 0, 998, 100) // 1
	order(2, 'A', 'A', 0, 1002, 50) // 2
	order(3, 'A', 'A', 0, 999, 10)  // 3
	order(4, 'A', 'B', 0, 1001, 10) // 4: crossed
	order(5, 'A', 'B', 0, 997, 5)   // still
	order(6, 'C', 'B', 4, 1001, 10) // 9.98 to 9.99
	order(7, 'A', 'B', 0, 999, 1)   // 6: locked
	order(8, 'C', 'A', 3, 999, 10)  // 9.99 to 10.02
	return w.Bytes
}

// TestCrossedBook checks the quotes that are published while a book is crossed or locked, and no
// status is known: the last one stays, and the next one follows from the first book that is not.
// Neither the file nor the journal has a wrong quote.
func TestCrossedBook(t *testing.T) {
	path := filepath.Join(t.TempDir(), "day.dbn")
	if err := os.WriteFile(path, crossedFile(), 0o600); err != nil {
		t.Fatal(err)
	}
	folder := intoJournal(t, open(t, path, Config{Speed: -1}), 0)
	r, err := journal.OpenReader(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var quotes []string
	for _, epoch := range r.Epochs() {
		if err := r.Scan(t.Context(), journal.ScanStart{Epoch: epoch}, nil, journal.Kinds(journal.Quote), func(row *journal.Row) bool {
			quotes = append(quotes, fmt.Sprint(row.Bids, row.Asks))
			return true
		}); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := strings.Join(quotes, "; "), "[] []; [{9.98 100 1}] []; [{9.98 100 1}] [{10.02 50 1}]; [{9.98 100 1}] [{9.99 10 1}]; [{9.99 1 1}] [{10.02 50 1}]"; got != want {
		t.Errorf("quotes %s, want %s", got, want)
	}
	report, err := verify.Journal(t.Context(), folder, 5, nil)
	if err != nil {
		t.Fatal(err)
	}
	if q, c := report.Result(verify.Quote), report.Result(verify.Crossed); q.Wrong > 0 || q.Judged == 0 || c.Wrong > 0 || c.Unjudged != 3 || c.Judged != 6 {
		t.Errorf("of the journal: quotes %+v, crossed %+v", q, c)
	}
	sink := verify.NewSink(verify.Config{})
	if err := open(t, path, Config{Speed: -1}).Run(t.Context(), sink); err != nil {
		t.Fatal(err)
	}
	report = sink.Report()
	if c := report.Result(verify.Crossed); report.Wrong() > 0 || c.Unjudged != 3 || c.Judged != 6 {
		t.Errorf("of the file: crossed %+v", c)
	}
	if len(report.Notes) != 1 || !strings.Contains(report.Notes[0], "3 books are locked or crossed, and no trading status is known") {
		t.Errorf("notes %q", report.Notes)
	}
}
