package replay_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/data/replay"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

// dated is the bids of a book from a time on.
type dated struct {
	at   int64
	bids map[market.Price]market.Size
}

// writeDays writes a capture of Binance with changes of a book on several days, and returns the
// books.
func writeDays(t *testing.T, path string, days int) (books []dated) {
	t.Helper()
	rng := rand.New(rand.NewPCG(8, 1))
	at := time.Date(2024, 8, 8, 11, 20, 0, 0, time.UTC).UnixMilli()
	bids := map[market.Price]market.Size{99 * market.Scale: market.Scale}
	text := fmt.Sprintf(`%d000000 {"stream":"xusdt@trade","data":{"e":"trade","E":%d,"T":%d,"s":"XUSDT","t":1,"p":"100","q":"1","m":true,"M":true}}
%d000000 {"lastUpdateId":1000,"bids":[["99","1"]],"asks":[]}
`, at, at, at, at)
	end := at + int64(days)*24*3600*1000
	for id := 1001; at < end; id++ {
		at += rng.Int64N(20 * 60 * 1000)
		price, size := 1+rng.IntN(20), rng.IntN(4)
		text += fmt.Sprintf(`%d000000 {"stream":"xusdt@depth","data":{"e":"depthUpdate","E":%d,"s":"XUSDT","U":%d,"u":%d,"b":[["%d","%d"]],"a":[]}}`+"\n", at, at, id, id, price, size)
		bids = maps.Clone(bids)
		bids[market.Price(price)*market.Scale] = market.Size(size) * market.Scale
		maps.DeleteFunc(bids, func(_ market.Price, z market.Size) bool { return z == 0 })
		books = append(books, dated{at * 1e6, bids})
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return books
}

// TestBookAtAnySpeedLong checks that the past books of a recording of several days are right at any
// speed. At the maximum speed many changes of a day are in the journal before its checkpoint.
func TestBookAtAnySpeedLong(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "days.jsonl")
	books := writeDays(t, path, 4)
	for _, tt := range []struct {
		name   string
		speed  float64
		commit bool // by the hub's own goroutine
	}{{"max", -1, true}, {"max, each batch committed", -1, false}, {"a day in a tenth of a second", 864_000, true}} {
		t.Run(tt.name, func(t *testing.T) {
			folder := t.TempDir()
			j, err := journal.Open(t.Context(), journal.Config{Folder: folder})
			if err != nil {
				t.Fatal(err)
			}
			h := hub.New(hub.Config{Journal: j})
			if err := h.Restore(t.Context()); err != nil {
				t.Fatal(err)
			}
			source, err := replay.Open(path, replay.Config{Speed: tt.speed})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			if tt.commit {
				running.Go(func() { _ = h.Run(ctx) })
			}
			err = source.Run(ctx, h)
			h.Commit()
			checkBooks(t, j.Archive, source.Instrument().ID, books)
			cancel()
			if running.Wait(); err != nil {
				t.Fatal(err)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			r, err := journal.OpenReader(t.Context(), folder)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if days := len(r.Days()); days != 5 {
				t.Errorf("%d days", days)
			}
			checkBooks(t, r.Archive, source.Instrument().ID, books)
		})
	}
}

func checkBooks(t *testing.T, a *journal.Archive, id market.InstrumentID, books []dated) {
	t.Helper()
	for i, want := range books {
		until := want.at + int64(time.Hour)
		if i+1 < len(books) {
			until = books[i+1].at - 1
		}
		for _, at := range []int64{want.at, until} {
			if at < want.at {
				continue
			}
			b, err := a.BookAt(t.Context(), id, at, math.MaxInt64)
			got := map[market.Price]market.Size{}
			for _, l := range b.Bids {
				got[l.Price] = l.Size
			}
			if err != nil || !maps.Equal(got, want.bids) {
				t.Fatalf("at %v: a book that is %v old, %v\n got %v\nwant %v", time.Unix(0, at).UTC(), time.Duration(at-b.Time), err, got, want.bids)
			}
		}
	}
}
