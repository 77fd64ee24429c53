package decode

import (
	"fmt"
	"strings"
)

// Reason says why a record is not played.
type Reason uint8

// Reasons.
const (
	Played       Reason = iota
	OtherType           // a type of record without meaning for a market, or of another stream
	Repeated            // its content was already played
	Filtered            // of an instrument that the filter excludes
	NoEffect            // it changes nothing, such as a trade of size 0
	HiddenOrder         // an order that is not in the book
	UnknownBook         // it changes an unknown book
	UnknownTrade        // it changes an unknown trade
	Inexact             // a price or size that cannot be represented exactly
	Late                // its time is before that of an earlier record
	Incomplete          // the file does not contain all of it
	Unsupported         // its type is unknown, or has market data that is not played
	NumReasons
)

var reasonWords = [NumReasons]string{
	"played", "other_type", "repeated", "filtered", "no_effect", "hidden_order",
	"unknown_book", "unknown_trade", "inexact", "late", "incomplete", "unsupported",
}

// String returns the reason as a word of reports and logs.
func (r Reason) String() string { return reasonWords[r] }

// Loss reports whether market data is lost with a record that is skipped for this reason.
func (r Reason) Loss() bool { return r >= UnknownBook }

// Skipped counts records that were not played, by reason.
type Skipped [NumReasons]int

// Lost returns the number of records with which market data was lost.
func (s *Skipped) Lost() (n int) {
	for r, count := range s {
		if Reason(r).Loss() {
			n += count
		}
	}
	return n
}

// String returns the counts with their reasons, such as "12 repeated, 3 late", or "" if there are
// none.
func (s *Skipped) String() string {
	var list []string
	for r, count := range s {
		if count > 0 {
			list = append(list, fmt.Sprintf("%d %v", count, Reason(r)))
		}
	}
	return strings.Join(list, ", ")
}

// Count counts a record that was skipped for a reason, or Played.
func (s *Stats) Count(r Reason) {
	s.Lines++
	if r == Played {
		s.Used++
	} else {
		s.Skipped[r]++
	}
}

// Recount counts n records, which were counted as played, as skipped for a reason.
func (s *Stats) Recount(n int, r Reason) {
	s.Used -= n
	s.Skipped[r] += n
}

// lossBound is how many records there must be for each lost one.
const lossBound = 1000

// ManyLost reports whether more than one record in a thousand was lost.
func (s *Stats) ManyLost() bool { return s.Skipped.Lost()*lossBound > s.Lines }

// Add adds the counters of another recording, except for Passes.
func (s *Stats) Add(o Stats) {
	s.Lines += o.Lines
	s.Trades += o.Trades
	s.Quotes += o.Quotes
	s.Orders += o.Orders
	s.Depth += o.Depth
	s.Levels += o.Levels
	s.Statuses += o.Statuses
	s.Snapshots += o.Snapshots
	s.Gaps += o.Gaps
	s.Rejected += o.Rejected
	s.Damaged += o.Damaged
	s.Used += o.Used
	for i, n := range o.Skipped {
		s.Skipped[i] += n
	}
}
