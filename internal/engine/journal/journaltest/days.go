// Package journaltest writes journals for the tests of other packages.
package journaltest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

// Days describes a journal of trades. Equal values make journals with equal rows.
type Days struct {
	Folder string
	Epoch  string
	Closed int    // closed days; a day that is not closed follows them
	Rows   int    // of each day
	Wrong  uint64 // position of a row that has another price; 0: none
	After  uint64 // position after which the rows begin
	Day    int    // number of the first day
}

// First returns the time of the first row of all journals.
func First() time.Time { return time.Date(2025, 11, 21, 10, 0, 0, 0, time.UTC) }

// Position returns the position of the newest row.
func (d Days) Position() uint64 { return d.After + uint64((d.Closed+1)*d.Rows) }

// ID is the instrument of all rows.
func ID() market.InstrumentID { return market.InstrumentID{Symbol: "GGAL", Market: "BYMA", Term: "CI"} }

// Write writes the journal. A journal of the folder is continued at its end, if After says so.
func (d Days) Write(t *testing.T) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		j, err := journal.Open(t.Context(), journal.Config{Folder: d.Folder, Copy: true, Epoch: d.Epoch, Segment: 32 << 10, Days: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Start(func(number uint32, emit func(*journal.Row)) {
			emit(&journal.Row{Kind: journal.Numbers, Instrument: number})
		}); err != nil {
			t.Fatal(err)
		}
		d.append(j)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- j.Run(ctx) }()
		synctest.Wait()
		time.Sleep(2 * time.Second) // of the test's clock: days are closed
		synctest.Wait()
		cancel()
		if err := errors.Join(<-ended, j.Close()); err != nil {
			t.Fatal(err)
		}
	})
}

// append appends the rows.
func (d Days) append(j *journal.Journal) {
	number := j.Define(market.Instrument{ID: ID(), PriceDecimals: 2})
	position := d.After
	for day := range d.Closed + 1 {
		for i := range d.Rows {
			position++
			at := First().Add(time.Duration(d.Day+day)*24*time.Hour + time.Duration(d.After+uint64(i))*time.Millisecond).UnixNano()
			r := journal.Row{
				Kind: journal.Trade, Instrument: number, Position: position, N: position, Time: at, At: at, Latency: -1,
				Price: market.Price(7000+i%50) * market.Scale, Size: market.Scale, Side: market.Buy, ID: fmt.Sprint(position),
			}
			if position == d.Wrong {
				r.Price++
			}
			j.Append(&r)
			if i%64 == 0 {
				j.Commit()
			}
		}
		j.Commit()
	}
	for j.CheckpointPending() {
		j.Commit()
	}
}
