package streamtest

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

// Days is a journal of trades of an instrument over some days. Each trade follows from its N.
// Another instrument has a quote and a book at the beginning of each day, and a trade in its
// middle.
type Days struct {
	Folder string
	Closed int // closed days; a day that is not closed follows them
	Rows   int // of each day
}

// ID returns the instrument.
func (Days) ID() market.InstrumentID {
	return market.InstrumentID{Symbol: "GGAL", Market: "BYMA", Term: "CI"}
}

// Rare returns the other instrument.
func (Days) Rare() market.InstrumentID {
	return market.InstrumentID{Symbol: "RARE", Market: "BYMA", Term: "CI"}
}

// Time returns the event time of the trade with N n. Each day has one a millisecond, from 10:00 on.
func (d Days) Time(n int) time.Time {
	return time.Date(2025, 11, 21+(n-1)/d.Rows, 10, 0, 0, (n-1)%d.Rows*1e6, time.UTC)
}

// Price returns the price of the trade with N n.
func (d Days) Price(n int) market.Price { return market.Price(7000+(n-1)%d.Rows%50) * market.Scale }

// Write writes the journal, as a gateway does.
func (d Days) Write(t *testing.T) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(d.Time(1)))
		j, err := journal.Open(t.Context(), journal.Config{Folder: d.Folder, Days: 1000, Sync: time.Millisecond, Segment: 32 << 10})
		check(t, err)
		h := hub.New(hub.Config{Journal: j, Markets: []market.Market{{ID: "BYMA"}}})
		check(t, h.Restore(t.Context()))
		handle, err := h.Define(market.Instrument{ID: d.ID(), PriceDecimals: 2})
		check(t, err)
		rare, err := h.Define(market.Instrument{ID: d.Rare(), PriceDecimals: 2, QuotesFromFeed: true})
		check(t, err)
		for n := 1; n <= (d.Closed+1)*d.Rows; n++ {
			time.Sleep(time.Until(d.Time(n)))
			trade := market.Event{Kind: market.KindTrade, Handle: handle, Time: d.Time(n).UnixNano(), Side: market.Buy, Price: d.Price(n), Size: market.Scale}
			check(t, h.Publish([]market.Event{trade}))
			if n%d.Rows == 1 {
				bids := []market.Level{{Price: market.Price(n) * market.Scale, Size: market.Scale}}
				for _, kind := range []market.Kind{market.KindQuote, market.KindSnapshot} {
					check(t, h.Publish([]market.Event{{Kind: kind, Handle: rare, Time: d.Time(n).UnixNano(), Bids: bids}}))
				}
			}
			if n%d.Rows == d.Rows/2 {
				trade.Handle = rare
				check(t, h.Publish([]market.Event{trade}))
			}
			h.Commit()
		}
		for j.CheckpointPending() {
			h.Commit()
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- j.Run(ctx) }()
		time.Sleep(2 * time.Second) // of the bubble's clock: days are closed
		synctest.Wait()
		cancel()
		check(t, <-ended)
		check(t, j.Close())
	})
}

// RemoveFirstDay removes the folder of the first day.
func (d Days) RemoveFirstDay(t *testing.T) {
	t.Helper()
	check(t, os.RemoveAll(filepath.Join(d.Folder, d.Time(1).Format(time.DateOnly))))
}

// RemoveSegment removes the second segment of a day, which is between others.
func (d Days) RemoveSegment(t *testing.T, date string) {
	t.Helper()
	check(t, os.Remove(d.segments(t, date)[1]))
}

// RemoveFirstSegment removes the first segment of a day.
func (d Days) RemoveFirstSegment(t *testing.T, date string) {
	t.Helper()
	check(t, os.Remove(d.segments(t, date)[0]))
}

func (d Days) segments(t *testing.T, date string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(d.Folder, date, "*.seg*"))
	if check(t, err); len(list) < 3 || !slices.IsSorted(list) {
		t.Fatalf("segments: %v", list)
	}
	return list
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
