package export

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/market"
)

// Type is a kind of table.
type Type uint8

// Types. A table has rows of one type.
const (
	Trades Type = iota + 1 // trades, cancels and corrections
	Quotes                 // best bid and offer
	Bars                   // bars of all intervals
	Depth                  // levels of books, and their changes
)

var typeWords = [...]string{"", "trades", "quotes", "bars", "depth"}

// String is the word of a type: trades, quotes, bars or depth.
func (t Type) String() string {
	if int(t) < len(typeWords) {
		return typeWords[t]
	}
	return ""
}

// Types are all of them.
func Types() []Type { return []Type{Trades, Quotes, Bars, Depth} }

// ParseType reads the word of a type.
func ParseType(s string) (Type, bool) {
	for _, t := range Types() {
		if s == t.String() {
			return t, true
		}
	}
	return 0, false
}

// Format is how a table is written.
type Format uint8

// Formats.
const (
	Parquet Format = iota + 1
	CSV
	NDJSON // the stream's own messages, one a line
)

var formatWords = [...]string{"", "parquet", "csv", "ndjson"}

// String is the word of a format, which is also the ending of its files.
func (f Format) String() string {
	if int(f) < len(formatWords) {
		return formatWords[f]
	}
	return ""
}

// Formats are all of them.
func Formats() []Format { return []Format{Parquet, CSV, NDJSON} }

// ParseFormat reads the word of a format.
func ParseFormat(s string) (Format, bool) {
	for _, f := range Formats() {
		if s == f.String() {
			return f, true
		}
	}
	return 0, false
}

// MediaType is what a file of the format is called on the web.
func (f Format) MediaType() string {
	switch f {
	case Parquet:
		return "application/vnd.apache.parquet"
	case CSV:
		return "text/csv; charset=utf-8; header=present"
	}
	return "application/x-ndjson"
}

// Request is what to export. The zero value of Market and Instruments means all.
type Request struct {
	Type        Type
	Date        string // of the day, UTC: 2026-11-20
	Market      string
	Instruments []market.InstrumentID
	Format      Format
	Unfinished  bool // take a day that is not closed too: what there is of it so far
}

// Errors of a request.
var (
	ErrBadRequest = errors.New("bad request")
	ErrNoDay      = errors.New("the journal does not have this day")
	ErrOpenDay    = errors.New("the day is not closed yet")
)

// start is when the request's date begins, in Unix nanoseconds.
func (r *Request) start() (int64, error) {
	t, err := time.Parse(time.DateOnly, r.Date)
	if err != nil {
		return 0, fmt.Errorf("%w: date %q: a date is YYYY-MM-DD", ErrBadRequest, r.Date)
	}
	if y := t.Year(); y < 1970 || y > 2261 {
		return 0, fmt.Errorf("%w: date %q: years are 1970 to 2261", ErrBadRequest, r.Date)
	}
	return t.UnixNano(), nil
}

func dateOf(at int64) string { return time.Unix(0, at).UTC().Format(time.DateOnly) }

// Check says why Write would refuse a request: ErrBadRequest, ErrNoDay or ErrOpenDay, wrapped. A day can be
// written when it is closed and the first minute of the next day is over, which may have
// rows of it; bars when thirteen hours of it are, since only then all trading days
// have their bars. From then on a request has always the same answer.
func Check(j *journal.Archive, r Request) error {
	switch {
	case r.Type.String() == "":
		return fmt.Errorf("%w: no type of table", ErrBadRequest)
	case r.Format.String() == "":
		return fmt.Errorf("%w: no format", ErrBadRequest)
	}
	start, err := r.start()
	if err != nil {
		return err
	}
	complete := start + dayLong + late
	if r.Type == Bars {
		complete = start + dayLong + lateBars
	}
	days := j.Days()
	i := slices.IndexFunc(days, func(d journal.Day) bool { return d.Date == r.Date })
	switch {
	case i < 0:
		return fmt.Errorf("%s: %w", r.Date, ErrNoDay)
	case r.Unfinished:
		return nil
	case !days[i].Closed || days[len(days)-1].To < complete:
		return fmt.Errorf("%s: %w", r.Date, ErrOpenDay)
	}
	return nil
}
