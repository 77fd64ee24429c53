package export

import (
	"context"
	"fmt"
	"strconv"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// LostReason is why rows are missing: they are not stored, or their files are damaged.
const LostReason = "buffer_exceeded"

// Range is a range of missing rows, as it is written in answers.
type Range struct {
	From, To   uint64 // N; 0: unknown
	Start, End int64  // event times of the rows before and after it; 0: there is none
}

// RangeOf returns a range of the journal.
func RangeOf(l *journal.Lost) Range { return Range{l.From, l.To, l.Start, l.End} }

// append appends the members of the range and the closing brace. The caller has written the opening
// brace.
func (r Range) append(b []byte) []byte {
	for _, m := range []struct {
		name string
		n    uint64
	}{{`"from":`, r.From}, {`"to":`, r.To}} {
		if m.n > 0 {
			b = append(strconv.AppendUint(append(b, m.name...), m.n, 10), ',')
		}
	}
	for _, m := range []struct {
		name string
		at   int64
	}{{`"start":"`, r.Start}, {`"end":"`, r.End}} {
		if m.at != 0 {
			b = append(wire.AppendTime(append(b, m.name...), m.at), `",`...)
		}
	}
	return append(b, `"reason":"`+LostReason+`"}`...)
}

// Lost is a range of rows that are missing in a table. Of depth, rows are missing between those of
// a book.
type Lost struct {
	Instrument market.InstrumentID
	Interval   string // of bars; "": another table
	Epoch      string
	Range
}

// append appends instrument, interval, epoch and the members of the range, with the closing brace.
// The caller has written the opening brace.
func (l Lost) append(b []byte) []byte {
	for _, m := range []struct{ name, text string }{{`"instrument":`, l.Instrument.String()}, {`"interval":`, l.Interval}, {`"epoch":`, l.Epoch}} {
		if m.text != "" && l.Epoch != "" {
			b = append(wire.AppendString(append(b, m.name...), m.text), ',')
		}
	}
	return l.Range.append(b)
}

// AppendLost appends ranges as a JSON list, at most limit of them; 0: all. If there are more, an
// entry with nothing but a reason follows.
func AppendLost[L interface{ append(b []byte) []byte }](b []byte, list []L, limit int) []byte {
	b = append(b, '[')
	for i, l := range list {
		if i > 0 {
			b = append(b, ',')
		}
		if b = append(b, '{'); limit > 0 && i == limit {
			b = Range{}.append(b)
			break
		}
		b = l.append(b)
	}
	return append(b, ']')
}

// KnownLost returns the rows of a request that are missing as far as is known before they are read.
// It costs nothing if the journal lacks no rows.
func KnownLost(ctx context.Context, j *journal.Archive, r Request) ([]Lost, error) {
	if r.Type == Depth || !MayLack(j, r) {
		return nil, nil
	}
	start, err := r.start()
	if err != nil {
		return nil, err
	}
	x := &tableWriter{journal: j, date: r.Date, start: start, end: start + dayLong}
	if err := x.findBeginning(ctx); err != nil {
		return nil, err
	}
	for _, in := range listings(j, &r) {
		for _, s := range r.Type.series(in) {
			if err := x.notKept(ctx, in, s); err != nil {
				return nil, err
			}
			if err := x.findLost(ctx, in, s, nil); err != nil {
				return nil, err
			}
		}
	}
	return x.lost, nil
}

// series returns the series of an instrument that a table has.
func (t Type) series(in *listing) []journal.Series {
	switch t {
	case Trades:
		return []journal.Series{{Instrument: in.ID, Channel: journal.Trades}}
	case Quotes:
		return []journal.Series{{Instrument: in.ID, Channel: journal.Quotes}}
	case Bars:
		list := make([]journal.Series, market.NumIntervals)
		for i := range list {
			list[i] = journal.Series{Instrument: in.ID, Channel: journal.Bars, Interval: market.Interval(i)}
		}
		return list
	}
	return nil
}

// findLost adds the missing rows of a series. Its rows were read from found; nil: none were read.
func (x *tableWriter) findLost(ctx context.Context, in *listing, s journal.Series, found *journal.Found) error {
	if found == nil {
		var err error
		if found, err = x.journal.FindDay(s, x.date); err != nil {
			return err
		}
		defer found.Close()
	}
	for _, epoch := range x.journal.Epochs() {
		list, err := found.Lost(ctx, journal.Range{Epoch: epoch, Start: x.start, End: x.end})
		if err != nil {
			return fmt.Errorf("find missing rows: %w", err)
		}
		for i := range list {
			x.lost = append(x.lost, lostOf(in, s, epoch, RangeOf(&list[i])))
		}
	}
	return nil
}
