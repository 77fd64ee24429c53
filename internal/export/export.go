package export

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/internal/sched"
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
	book   book   // used when writing depth
	cells  []byte // instrument, symbol, market and term of a CSV row, with a trailing comma
}

// table writes rows in a format.
type table interface {
	// put adds a row. It does not keep the row.
	put(in *listing, epoch string, r *journal.Row, final bool) error
	// close writes what is buffered. It is not called after an error.
	close() error
}

// Write writes the table of a request to w and returns the number of rows (in NDJSON, of messages).
// Rows are sorted by instrument and sequence. Rows of depth are in the order of the stream in CSV
// and NDJSON, and sorted within each row group in Parquet.
func Write(ctx context.Context, w io.Writer, j *journal.Archive, r Request) (rows int64, err error) {
	if err := Check(j, r); err != nil {
		return 0, err
	}
	return write(ctx, w, j, r, func(int64, float64) {})
}

// Markets returns the markets of a request that the journal has, sorted.
func Markets(j *journal.Archive, r Request) []string {
	var markets []string
	for _, in := range listings(j, &r) {
		markets = append(markets, in.ID.Market)
	}
	slices.Sort(markets)
	return slices.Compact(markets)
}

// listings returns the instruments of a request, sorted by name.
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
	return &listing{Instrument: def, number: number, name: def.ID.String(), ident: wire.MakeIdent(def.ID),
		cells: appendInstrumentCells(nil, def.ID)}
}

// tableWriter writes one table.
type tableWriter struct {
	journal    *journal.Archive
	table      table
	date       string
	start, end int64 // of the day
	list       []*listing
	rows       int64
	progress   func(rows int64, done float64)
	finals     finals
}

func write(ctx context.Context, w io.Writer, j *journal.Archive, r Request, progress func(int64, float64)) (int64, error) {
	start, err := r.start()
	if err != nil {
		return 0, err
	}
	x := &tableWriter{journal: j, date: r.Date, start: start, end: start + dayLong, list: listings(j, &r), progress: progress, table: newTable(w, &r)}
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
	progress(x.rows, 1)
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
func (x *tableWriter) series(ctx context.Context, one func(context.Context, *listing) error) error {
	for i, in := range x.list {
		if err := one(ctx, in); err != nil {
			return fmt.Errorf("%s: %w", in.name, err)
		}
		x.progress(x.rows, float64(i+1)/float64(len(x.list)))
	}
	return nil
}

// visit is called for each row read.
type visit func(in *listing, epoch string, r *journal.Row) error

// late is how long after midnight rows of the previous day may be published. The last bar of a
// minute is published when the minute is over.
const late = int64(time.Minute)

// lateBars is how long after midnight bars of the previous day may be published: west of Greenwich,
// trading days end later than in UTC, by up to twelve hours and a clock change.
const lateBars = int64(13 * time.Hour)

const dayLong = int64(24 * time.Hour)

// read reads the day's rows of a series: those published on the day, without the late rows of the
// previous day, and its own late rows published after midnight. Later bars also belong to the day
// in which they begin, because a trading day may be longer, unless they revise others. So every row
// belongs to one day.
func (x *tableWriter) read(ctx context.Context, in *listing, c journal.Channel, i market.Interval, do visit) error {
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

func (x *tableWriter) put(in *listing, epoch string, r *journal.Row) error {
	x.count()
	return x.table.put(in, epoch, r, false)
}

// count counts a row and yields from time to time, because goroutines that serve live data may need
// the processor.
func (x *tableWriter) count() {
	if x.rows++; x.rows%256 == 0 {
		sched.Yield()
	}
}

// trades writes the trades of an instrument.
func (x *tableWriter) trades(ctx context.Context, in *listing) error {
	f := &x.finals
	f.reset()
	err := x.read(ctx, in, journal.Trades, 0, func(_ *listing, epoch string, r *journal.Row) error {
		f.add(epoch, r)
		return nil
	})
	if err == nil && f.unresolved() {
		err = x.read(ctx, in, journal.Trades, 0, func(_ *listing, epoch string, r *journal.Row) error {
			f.resolve(epoch, r)
			return nil
		})
	}
	if err != nil {
		return err
	}
	f.finish()
	return x.read(ctx, in, journal.Trades, 0, func(_ *listing, epoch string, r *journal.Row) error {
		x.count()
		return x.table.put(in, epoch, r, f.final(epoch, r))
	})
}
