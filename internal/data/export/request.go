package export

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

// Type is a kind of table.
type Type uint8

// Types. A table has rows of one type.
const (
	Trades Type = iota + 1 // trades, cancellations and corrections
	Quotes                 // best bid and offer
	Bars                   // bars of all intervals
	Depth                  // levels of books, and their changes
)

var typeWords = [...]string{"", "trades", "quotes", "bars", "depth"}

// String returns the word of a type: trades, quotes, bars or depth.
func (t Type) String() string {
	if int(t) < len(typeWords) {
		return typeWords[t]
	}
	return ""
}

// Types returns all types.
func Types() []Type { return []Type{Trades, Quotes, Bars, Depth} }

// ParseType parses the word of a type.
func ParseType(s string) (Type, bool) {
	for _, t := range Types() {
		if s == t.String() {
			return t, true
		}
	}
	return 0, false
}

// Format is a file format.
type Format uint8

// Formats.
const (
	Parquet Format = iota + 1
	CSV
	NDJSON // the messages of the stream, one per line
)

var formatWords = [...]string{"", "parquet", "csv", "ndjson"}

// String returns the word of a format, which is also the extension of its files.
func (f Format) String() string {
	if int(f) < len(formatWords) {
		return formatWords[f]
	}
	return ""
}

// Formats returns all formats.
func Formats() []Format { return []Format{Parquet, CSV, NDJSON} }

// ParseFormat parses the word of a format.
func ParseFormat(s string) (Format, bool) {
	for _, f := range Formats() {
		if s == f.String() {
			return f, true
		}
	}
	return 0, false
}

// MediaType returns the media type of the format.
func (f Format) MediaType() string {
	switch f {
	case Parquet:
		return "application/vnd.apache.parquet"
	case CSV:
		return "text/csv; charset=utf-8; header=present"
	}
	return "application/x-ndjson"
}

// Request describes what to export. The zero values of Market and Instruments mean all.
type Request struct {
	Type        Type
	Date        string // of the day, UTC: 2026-11-20
	Market      string
	Instruments []market.InstrumentID
	Format      Format
	Unfinished  bool // also export a day that is not closed, up to now
}

// Errors returned by Check and Write.
var (
	ErrBadRequest = errors.New("bad request")
	ErrNoDay      = errors.New("the journal does not have this day")
	ErrOpenDay    = errors.New("the day is not closed yet")
)

// Around returns the newest stored day before a date and the oldest one after it; "" if there is
// none.
func Around(days []journal.Day, date string) (before, after string) {
	for _, d := range days {
		switch {
		case d.Date < date:
			before = d.Date
		case d.Date > date && after == "":
			after = d.Date
		}
	}
	return before, after
}

// start returns the beginning of the request's date, in Unix nanoseconds.
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

// complete returns when all rows of the request are published, for a start of its date.
func (r *Request) complete(start int64) int64 {
	if r.Type == Bars {
		return start + dayLong + lateBars
	}
	return start + dayLong + late
}

// Complete returns when all rows of a request are published. A user of delayed data may have them
// when this is as long ago as the delay.
func (r *Request) Complete() (time.Time, error) {
	start, err := r.start()
	return time.Unix(0, r.complete(start)), err
}

func dateOf(at int64) string { return time.Unix(0, at).UTC().Format(time.DateOnly) }

// Check returns the error that Write would return for a request: ErrBadRequest, ErrNoDay or
// ErrOpenDay, wrapped. A day can be written when it is closed and the first minute of the next day,
// which may have rows of it, is over. For bars it takes thirteen hours of the next day, because
// only then all trading days have their bars. From then on the result of a request does not change.
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
	days := j.Days()
	i := slices.IndexFunc(days, func(d journal.Day) bool { return d.Date == r.Date })
	switch {
	case i < 0:
		return fmt.Errorf("%s: %w", r.Date, ErrNoDay)
	case r.Unfinished:
		return nil
	case !days[i].Closed:
		return fmt.Errorf("%s: %w: a gateway closes it when the next day has begun (UTC)", r.Date, ErrOpenDay)
	case days[len(days)-1].To < r.complete(start):
		return fmt.Errorf("%s: %w: its %s will be complete at %s", r.Date, ErrOpenDay, r.Type, time.Unix(0, r.complete(start)).UTC().Format(time.RFC3339))
	}
	return nil
}
