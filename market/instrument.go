package market

import (
	"errors"
	"fmt"
)

// Instrument is the definition of an instrument in a catalogue. Journals store it as JSON, so the
// names of its fields in JSON must not change.
type Instrument struct {
	ID             InstrumentID
	Name           string
	Kind           string // equity, bond, cedear, future, option, index, spot, perpetual, ...
	ISIN           string
	Currency       string // ISO 4217 code, or the market's own (USDT)
	SettlementDays int    // days from trade to settlement (T+n)
	Multiplier     Size   // units of the underlying in one unit of size; 0 means 1
	PriceDecimals  int    // 0 to 8; the decimals of prices in checksums
	SizeDecimals   int    // 0 to 8
	Ticks          []Tick // by rising From; empty: any price
	Lot            Size   // sizes are multiples of it; 0: any size
	MinSize        Size   // smallest order; 0: none
	// Phase is the status at listing; NoPhase means Open. NoPhase and Unknown do not change the
	// status of an instrument that was listed before.
	Phase Phase
	// QuotesFromFeed means that quotes come as KindQuote and are not derived from the book.
	QuotesFromFeed bool `json:"OwnQuotes"`
	// NoBook means that the feed gives no book; subscriptions to order_book are rejected.
	NoBook bool
	// StartsEmpty means that the book is empty at listing; otherwise it is stale until a
	// KindSnapshot.
	StartsEmpty bool `json:"BookReady"`
	// VirtualClock means that event times are not the present of this machine (replay, speed), so
	// that no latency is measured.
	VirtualClock bool
	Listed       int64 // event time of the listing, Unix ns; 0: now
	// Timezone is that of the market. The gateway sets it, for readers of the journal; "" is
	// unknown.
	Timezone string `json:",omitempty"`
}

// Tick is a row of a tick-size table: prices at or above From are multiples of Step.
type Tick struct {
	From Price
	Step Price
}

// Validate returns an error that describes the first problem of the definition.
func (in *Instrument) Validate() error {
	if !in.ID.Valid() {
		return fmt.Errorf("instrument %q: %w", in.ID.String(), ErrBadInstrument)
	}
	if in.PriceDecimals < 0 || in.PriceDecimals > 8 || in.SizeDecimals < 0 || in.SizeDecimals > 8 {
		return fmt.Errorf("instrument %s: decimals must be 0 to 8", in.ID)
	}
	if in.SettlementDays < 0 || in.Multiplier < 0 || in.Lot < 0 || in.MinSize < 0 {
		return fmt.Errorf("instrument %s: settlement days, multiplier, lot and minimum size must not be negative", in.ID)
	}
	for i, t := range in.Ticks {
		if t.Step <= 0 {
			return fmt.Errorf("instrument %s: tick step must be above 0", in.ID)
		}
		if i > 0 && t.From <= in.Ticks[i-1].From {
			return fmt.Errorf("instrument %s: tick table must be in increasing order", in.ID)
		}
	}
	return nil
}

// TickSize returns the tick size at price p, or 0 if the instrument has no tick table.
func (in *Instrument) TickSize(p Price) Price {
	var step Price
	for _, t := range in.Ticks {
		if p < t.From && step != 0 {
			break
		}
		step = t.Step
	}
	return step
}

// Term is a settlement term of a market.
type Term struct {
	Name           string
	SettlementDays int
}

// Market is a venue, the middle part of an instrument identifier.
type Market struct {
	ID             string
	Name           string
	Timezone       string // IANA name; "" means UTC
	Terms          []Term
	Schedule       Schedule
	StatusFromFeed bool // the feed sends the trading status; Schedule is only shown in the calendar
	Positive       bool // prices are never below 0
}

// ErrUnknownInstrument is returned for a well-formed identifier that is not listed.
var ErrUnknownInstrument = errors.New("unknown instrument")
