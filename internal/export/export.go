package export

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/internal/thread"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// listing is an instrument of a journal, with what its rows have in common.
type listing struct {
	market.Instrument
	number uint32
	order  int // in the table
	name   string
	ident  wire.Ident
	book   book   // of a writing of depth
	cells  []byte // instrument, symbol, market and term of a CSV row, with a comma behind
}

// table takes rows and writes them in a format.
type table interface {
	// put adds a row and keeps nothing of it.
	put(in *listing, epoch string, r *journal.Row, final bool) error
	// close writes what is left. It is not called after an error.
	close() error
}

// Write writes the table of a request to w and returns the number of its rows (of
// messages, in NDJSON). Rows are sorted by instrument and sequence; those of depth stand in the
// order of the stream in CSV and NDJSON, and are sorted within each row group in Parquet.
func Write(ctx context.Context, w io.Writer, j *journal.Archive, r Request) (rows int64, err error) {
	if err := Check(j, r); err != nil {
		return 0, err
	}
	return write(ctx, w, j, r, func(int64, float64) {})
}

// Markets are the markets of a request that the journal knows, in order.
func Markets(j *journal.Archive, r Request) []string {
	var markets []string
	for _, in := range listings(j, &r) {
		markets = append(markets, in.ID.Market)
	}
	slices.Sort(markets)
	return slices.Compact(markets)
}

// listings are the instruments of a request, in the order of their names.
func listings(j *journal.Archive, r *Request) []*listing {
	var list []*listing
	for n := uint32(1); ; n++ {
		def, ok := j.Instrument(n)
		if !ok {
			break
		}
		if def.ID.Symbol == "*" || r.Market != "" && def.ID.Market != r.Market ||
			len(r.Instruments) > 0 && !slices.Contains(r.Instruments, def.ID) {
			continue
		}
		list = append(list, newListing(def, n))
	}
	slices.SortFunc(list, func(a, b *listing) int { return strings.Compare(a.name, b.name) })
	for i, in := range list {
		in.order = i
	}
	return list
}

func newListing(def market.Instrument, number uint32) *listing {
	in := &listing{Instrument: def, number: number, name: def.ID.String(), ident: wire.MakeIdent(def.ID)}
	for _, s := range [...]string{in.name, def.ID.Symbol, def.ID.Market, def.ID.Term} {
		in.cells = append(appendCell(in.cells, s), ',')
	}
	return in
}

// writing is one table in the making.
type writing struct {
	journal    *journal.Archive
	table      table
	date       string
	start, end int64 // of the day
	list       []*listing
	rows       int64
	told       func(rows int64, done float64)
	finals     finals
}

func write(ctx context.Context, w io.Writer, j *journal.Archive, r Request, told func(int64, float64)) (int64, error) {
	start, err := r.start()
	if err != nil {
		return 0, err
	}
	x := &writing{journal: j, date: r.Date, start: start, end: start + dayLong, list: listings(j, &r), told: told, table: newTable(w, &r)}
	switch r.Type {
	case Trades:
		err = x.series(ctx, x.trades)
	case Quotes:
		err = x.series(ctx, func(ctx context.Context, in *listing) error {
			return x.read(ctx, in, journal.Quotes, 0, x.put)
		})
	case Bars:
		err = x.series(ctx, func(ctx context.Context, in *listing) error {
			for i := range market.NumIntervals {
				if err := x.read(ctx, in, journal.Bars, i, x.put); err != nil {
					return err
				}
			}
			return nil
		})
	case Depth:
		err = x.depth(ctx, r.Format == NDJSON)
	}
	if err != nil {
		return x.rows, err
	}
	told(x.rows, 1)
	return x.rows, x.table.close()
}

func newTable(w io.Writer, r *Request) table {
	switch r.Format {
	case CSV:
		return newCSV(w, r.Type)
	case NDJSON:
		return newMessages(w)
	}
	return newParquet(w, r.Type)
}

// series writes instrument by instrument.
func (x *writing) series(ctx context.Context, one func(context.Context, *listing) error) error {
	for i, in := range x.list {
		if err := one(ctx, in); err != nil {
			return fmt.Errorf("%s: %w", in.name, err)
		}
		x.told(x.rows, float64(i+1)/float64(len(x.list)))
	}
	return nil
}

// visit is called for each row of a reading.
type visit func(in *listing, epoch string, r *journal.Row) error

// late is how long after midnight a row of the day before may be published. A minute's last
// bar comes when the minute is over.
const late = int64(time.Minute)

// lateBars is how long after midnight bars of the day before may be published: west of
// Greenwich trading days end later than those of UTC, by twelve hours and a clock change.
const lateBars = int64(13 * time.Hour)

const dayLong = int64(24 * time.Hour)

// read reads the day's rows of a series: those that were published on it, but for what was left of the day
// before, and what was left of it after midnight. Bars that come later than that are left of it too, for a
// trading day may be longer, unless they revise others. So every row is of one day.
func (x *writing) read(ctx context.Context, in *listing, c journal.Channel, i market.Interval, do visit) error {
	var failed error
	s := journal.Series{Instrument: in.ID, Channel: c, Interval: i}
	read := func(r journal.Range, start int64, before bool) error {
		err := x.journal.Read(ctx, s, r, func(epoch string, r *journal.Row) bool {
			left := r.Time < start && r.Time >= start-dayLong && (r.At < start+late || r.Kind == journal.Bar && !r.Bar.Revised)
			if left == before {
				failed = do(in, epoch, r)
			}
			return failed == nil
		})
		if failed != nil {
			return failed
		}
		return err
	}
	if err := read(journal.Range{Date: x.date}, x.start, false); err != nil {
		return err
	}
	return read(journal.Range{Date: dateOf(x.end), Start: x.start, End: x.end}, x.end, true)
}

func (x *writing) put(in *listing, epoch string, r *journal.Row) error {
	x.count()
	return x.table.put(in, epoch, r, false)
}

// count counts a row, and gives way every so often: who serves the present may want this processor.
func (x *writing) count() {
	if x.rows++; x.rows%32 == 0 {
		thread.Yield()
	}
}

// trades writes the trades of an instrument.
func (x *writing) trades(ctx context.Context, in *listing) error {
	f := &x.finals
	f.reset()
	err := x.read(ctx, in, journal.Trades, 0, func(_ *listing, epoch string, r *journal.Row) error {
		f.see(epoch, r)
		return nil
	})
	if err == nil && f.open() {
		err = x.read(ctx, in, journal.Trades, 0, func(_ *listing, epoch string, r *journal.Row) error {
			f.seek(epoch, r)
			return nil
		})
	}
	if err != nil {
		return err
	}
	f.settle()
	return x.read(ctx, in, journal.Trades, 0, func(_ *listing, epoch string, r *journal.Row) error {
		x.count()
		return x.table.put(in, epoch, r, f.final(epoch, r))
	})
}
