package journal

import "github.com/ruedahq/rueda/internal/engine/journal/record"

// Rows and what they consist of.
type (
	Kind     = record.Kind
	KindSet  = record.KindSet
	Channel  = record.Channel
	Interval = record.Interval
	Row      = record.Row
	BarRow   = record.BarRow
	Counts   = record.Counts
	Damage   = record.Damage
	Source   = record.Source // the newest number that a source has given to an event
)

// Kinds of rows.
const (
	Trade      = record.Trade
	Cancel     = record.Cancel
	Correct    = record.Correct
	Status     = record.Status
	Quote      = record.Quote
	Bar        = record.Bar
	BookUpdate = record.BookUpdate
	BookState  = record.BookState
	BookLost   = record.BookLost
	Reference  = record.Reference
	Numbers    = record.Numbers
	Gap        = record.Gap
)

// Channels, and the number of intervals of Bars.
const (
	Trades       = record.Trades
	Statuses     = record.Statuses
	Quotes       = record.Quotes
	Bars         = record.Bars
	Books        = record.Books
	Summaries    = record.Summaries
	NumChannels  = record.NumChannels
	NumIntervals = record.NumIntervals
)

// Kinds returns a set.
func Kinds(list ...Kind) KindSet { return record.Kinds(list...) }
