package export

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/base/sched"
	"github.com/ruedahq/rueda/internal/engine/journal"
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
	book   book           // used when writing depth
	cells  []byte         // instrument, symbol, market and term of a CSV row, with a trailing comma
	zone   *time.Location // of the market; nil: unknown
}

// table writes rows in a format.
type table interface {
	// put adds a row. It does not keep the row.
	put(in *listing, epoch string, r *journal.Row, final bool) error
	// close writes what is buffered, and which rows are missing if the format has a place for them.
	// It is not called after an error.
	close(lost []Lost) error
}

// Write writes the table of a request to w and returns the number of rows (in NDJSON, of messages),
// and which rows are missing. Rows are sorted by instrument and sequence. Rows of depth are in the
// order of the stream in CSV and NDJSON, and sorted within each row group in Parquet.
func Write(ctx context.Context, w io.Writer, j *journal.Archive, r Request) (rows int64, lost []Lost, err error) {
	if err := Check(j, r); err != nil {
		return 0, nil, err
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
	in := &listing{Instrument: def, number: number, name: def.ID.String(), ident: wire.MakeIdent(def.ID),
		cells: appendInstrumentCells(nil, def.ID)}
	if zone, err := time.LoadLocation(def.Timezone); err == nil && def.Timezone != "" {
		in.zone = zone
	}
	return in
}

// date returns the trading date of a time, 0 if it is unknown.
func (in *listing) date(at int64) market.Date {
	if in.zone == nil {
		return 0
	}
	return market.DateAt(at, in.zone)
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
	found      [2]*journal.Found // of the series, for the day and the next one
	lost       []Lost

	beginningMissing bool // the first rows of the day are missing
}

func write(ctx context.Context, w io.Writer, j *journal.Archive, r Request, progress func(int64, float64)) (int64, []Lost, error) {
	start, err := r.start()
	if err != nil {
		return 0, nil, err
	}
	x := &tableWriter{journal: j, date: r.Date, start: start, end: start + dayLong, list: listings(j, &r), progress: progress, table: newTable(w, &r)}
	if err := x.findBeginning(ctx); err != nil {
		return 0, nil, err
	}
	switch r.Type {
	case Depth:
		err = x.depth(ctx, r.Format == NDJSON)
	case Trades:
		err = x.series(ctx, r.Type, x.trades)
	default:
		err = x.series(ctx, r.Type, func(ctx context.Context, in *listing) error { return x.read(ctx, in, x.put) })
	}
	if err != nil {
		return x.rows, x.lost, err
	}
	progress(x.rows, 1)
	return x.rows, x.lost, x.table.close(x.lost)
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
func (x *tableWriter) series(ctx context.Context, t Type, one func(context.Context, *listing) error) error {
	for i, in := range x.list {
		for _, s := range t.series(in) {
			if err := x.oneSeries(ctx, in, s, one); err != nil {
				return fmt.Errorf("%s: %w", in.name, err)
			}
		}
		x.progress(x.rows, float64(i+1)/float64(len(x.list)))
	}
	return nil
}

// oneSeries finds the rows of a series, writes them, and adds which are missing.
func (x *tableWriter) oneSeries(ctx context.Context, in *listing, s journal.Series, one func(context.Context, *listing) error) error {
	for i, date := range []string{x.date, dateOf(x.end)} {
		found, err := x.journal.FindDay(s, date)
		if err != nil {
			return err
		}
		defer found.Close()
		x.found[i] = found
	}
	if err := one(ctx, in); err != nil {
		return err
	}
	if err := x.notKept(ctx, in, s); err != nil {
		return err
	}
	n := len(x.lost)
	err := x.findLost(ctx, in, s, x.found[0])
	if err == nil && len(x.lost) == n {
		err = x.findLost(ctx, in, s, x.found[1])
	}
	return err
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
func (x *tableWriter) read(ctx context.Context, in *listing, do visit) error {
	var failed error
	read := func(f *journal.Found, r journal.Range, start int64, before bool) error {
		r.SkipDamage = true
		err := f.Read(ctx, r, func(epoch string, r *journal.Row) bool {
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
	if err := read(x.found[0], journal.Range{}, x.start, false); err != nil {
		return err
	}
	return read(x.found[1], journal.Range{Start: x.start, End: x.end}, x.end, true)
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
	err := x.read(ctx, in, func(_ *listing, epoch string, r *journal.Row) error {
		f.add(epoch, r)
		return nil
	})
	if err == nil && f.unresolved() {
		err = x.read(ctx, in, func(_ *listing, epoch string, r *journal.Row) error {
			f.resolve(epoch, r)
			return nil
		})
	}
	if err != nil {
		return err
	}
	f.finish()
	return x.read(ctx, in, func(_ *listing, epoch string, r *journal.Row) error {
		x.count()
		return x.table.put(in, epoch, r, f.final(epoch, r))
	})
}
