package replay

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/feed/feedtest"
	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/market"
)

// capture returns the path of a recorded capture, or skips the test if there is none.
func capture(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("RUEDA_TAPES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared", "data")
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		t.Skip("recorded tapes not found: set RUEDA_TAPES to the directory that holds " + name)
	}
	return path
}

// captures holds the captures and what a reference implementation found in them.
var captures = []struct {
	file                   string
	id                     string
	lines, trades, quotes  int
	depth, applied, levels int
}{
	{"binance_usdm_btcusdt_20240808.jsonl.gz", "BTCUSDT|BINANCE|PERP", 93_954, 21_313, 66_089, 6_551, 6_547, 443_521},
	{"binance_spot_btcusdt_20240808.jsonl.gz", "BTCUSDT|BINANCE|SPOT", 41_249, 9_757, 28_040, 3_451, 3_449, 124_090},
}

// top is the best bid and offer at an update id.
type top struct {
	sequence uint64
	bid, ask market.Level
}

// oracle is a sink that records the quotes, and the best bid and offer of the book after each depth
// message. Either may be ahead of the other, so they are compared at the end.
type oracle struct {
	mu      sync.Mutex
	book    market.Book
	quotes  []top
	updates []top
	counts  map[market.Kind]int
	crossed int
}

func (o *oracle) Define(market.Instrument) (market.Handle, error) { return 7, nil }

func (o *oracle) Publish(events []market.Event) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.counts == nil {
		o.counts = make(map[market.Kind]int)
	}
	for i := range events {
		e := &events[i]
		o.counts[e.Kind]++
		switch e.Kind {
		case market.KindQuote:
			o.quotes = append(o.quotes, top{e.Sequence, e.Bids[0], e.Asks[0]})
		case market.KindSnapshot, market.KindUpdate:
			if e.Kind == market.KindSnapshot {
				o.book.Reset()
			}
			for _, l := range e.Bids {
				o.book.Set(market.Buy, l)
			}
			for _, l := range e.Asks {
				o.book.Set(market.Sell, l)
			}
			if o.book.Crossed() {
				o.crossed++
			}
			if e.Kind == market.KindUpdate {
				bid, _ := o.book.Best(market.Buy)
				ask, _ := o.book.Best(market.Sell)
				o.updates = append(o.updates, top{e.Sequence, bid, ask})
			}
		}
	}
	return nil
}

// equal returns after how many depth messages the book agreed with the newest quote whose update id
// is not above that of the message.
func (o *oracle) equal(t *testing.T) (n int) {
	slices.SortStableFunc(o.quotes, func(a, b top) int { return cmp.Compare(a.sequence, b.sequence) })
	i := 0
	for _, u := range o.updates {
		for i < len(o.quotes) && o.quotes[i].sequence <= u.sequence {
			i++
		}
		if i > 0 && o.quotes[i-1].bid == u.bid && o.quotes[i-1].ask == u.ask {
			n++
		} else {
			t.Errorf("after update %d the best are %v and %v, the quotes say otherwise", u.sequence, u.bid, u.ask)
		}
	}
	return n
}

// TestCaptures plays both captures side by side, as two sources of one gateway.
func TestCaptures(t *testing.T) {
	for _, tt := range captures {
		t.Run(tt.id, func(t *testing.T) {
			path := capture(t, tt.file)
			t.Parallel()
			source, err := Open(path, Config{Speed: -1})
			if err != nil {
				t.Fatal(err)
			}
			if in := source.Instrument(); in.ID.String() != tt.id || !in.QuotesFromFeed || !in.VirtualClock || in.StartsEmpty || in.Currency != "USDT" {
				t.Errorf("instrument %+v", in)
			}
			var o oracle
			begun := time.Now()
			if err := source.Run(t.Context(), &o); err != nil {
				t.Fatal(err)
			}
			t.Logf("figure: %s: %d events in %v", tt.id, o.counts[market.KindTrade]+o.counts[market.KindQuote]+o.counts[market.KindUpdate], time.Since(begun).Round(time.Millisecond))
			want := Stats{Lines: tt.lines, Trades: tt.trades, Quotes: tt.quotes, Depth: tt.depth, Levels: tt.levels,
				Snapshots: 1, Used: tt.lines - (tt.depth - tt.applied), Skipped: decode.Skipped{decode.Repeated: tt.depth - tt.applied}, Passes: 1}
			if got := source.Stats(); got != want {
				t.Errorf("played %+v\n  want %+v", got, want)
			}
			for kind, want := range map[market.Kind]int{
				market.KindTrade: tt.trades, market.KindQuote: tt.quotes, market.KindUpdate: tt.applied,
				market.KindSnapshot: 1, market.KindGap: 0,
			} {
				if got := o.counts[kind]; got != want {
					t.Errorf("%d events of kind %d, want %d", got, kind, want)
				}
			}
			n := o.equal(t)
			t.Logf("figure: %s: %d gaps, %d crossed books, equal to the quotes %d times of %d", tt.id, source.Stats().Gaps, o.crossed, n, tt.applied)
			if n != tt.applied || o.crossed != 0 {
				t.Error("the book differs from the quotes")
			}
		})
	}
}

func TestCapturesConform(t *testing.T) {
	for _, tt := range captures {
		t.Run(tt.id, func(t *testing.T) {
			path := capture(t, tt.file)
			feedtest.Run(t, func(t *testing.T) feed.Source {
				source, err := Open(path, Config{Speed: -1})
				if err != nil {
					t.Fatal(err)
				}
				return source
			}, feedtest.Options{
				Events:         5_000,
				TimeSlack:      2 * time.Second, // trades and depth are two streams
				UnknownDeletes: true,            // of levels below the snapshot's thousand
			})
		})
	}
}

// BenchmarkCapture decompresses, parses and splices a whole capture.
func BenchmarkCapture(b *testing.B) {
	for _, tt := range captures {
		b.Run(tt.id, func(b *testing.B) {
			source, err := Open(capture(b, tt.file), Config{Speed: -1})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := source.Run(b.Context(), new(feedtest.CountSink)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(tt.lines)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}
