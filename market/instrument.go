package market

import (
	"errors"
	"fmt"
)

// Instrument is the definition of an instrument: what a catalogue lists.
type Instrument struct {
	ID             InstrumentID
	Name           string
	Kind           string // equity, bond, cedear, future, option, index, spot, perpetual, ...
	ISIN           string
	Currency       string // ISO 4217, or the market's word (USDT)
	SettlementDays int    // T+n of the term
	Multiplier     Size   // units of the underlying in one unit of size; 0 means 1
	PriceDecimals  int    // 0 to 8, decimals of the checksum's prices
	SizeDecimals   int    // 0 to 8
	Ticks          []Tick // by rising From; empty: any price
	Lot            Size   // sizes are whole multiples; 0: any
	MinSize        Size   // smallest order; 0: none
	Phase          Phase  // status at listing; NoPhase means Open
	OwnQuotes      bool   // quotes come as KindQuote from the source, not from the book
	NoBook         bool   // the source gives no book: order_book is refused
	BookReady      bool   // the book is known to be empty at listing; otherwise it is stale until a KindSnapshot
	VirtualClock   bool   // event times are not of this machine's present (replay, speed): no latency is told
	Listed         int64  // event time of the listing, Unix ns; 0: now
}

// Tick is a row of a tick-size table: from a price on, prices are whole multiples of Step.
type Tick struct {
	From Price
	Step Price
}

// Validate says what is wrong with the definition, in words for whoever wrote it.
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
			return fmt.Errorf("instrument %s: tick table must rise", in.ID)
		}
	}
	return nil
}

// TickSize is the step of prices at p; 0 where the instrument has no tick table.
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

// Market is a venue: the middle part of an instrument identifier.
type Market struct {
	ID       string
	Name     string
	Timezone string // IANA name; "" is UTC
	Terms    []Term
	Schedule Schedule
	FeedTold bool // its feed tells the phases itself; the schedule is for whoever asks for the calendar
	Positive bool // no price is below 0
}

// ErrUnknownInstrument says that an identifier is well formed and not listed.
var ErrUnknownInstrument = errors.New("unknown instrument")
