package decode

import (
	"bytes"

	"github.com/ruedahq/rueda/market"
)

// Symbol converts the name of an instrument in a file to the symbol of an identifier: it removes
// padding and replaces characters that identifiers may not have with "_". It returns "" if nothing
// is left.
func Symbol(raw []byte) string {
	if i := bytes.IndexByte(raw, 0); i >= 0 {
		raw = raw[:i]
	}
	raw = bytes.TrimRight(raw, " ")
	s := make([]byte, len(raw))
	for i, c := range raw {
		if c <= ' ' || c > '~' || bytes.IndexByte([]byte(`|*,"\;`), c) >= 0 {
			c = '_'
		}
		s[i] = c
	}
	return string(s)
}

// Filter is a set of selected instruments. The empty Filter selects all.
type Filter map[string]bool

// NewFilter returns a filter of symbols (AAPL) and identifiers (AAPL|NASDAQ|24hs).
func NewFilter(names []string) Filter {
	f := make(Filter, len(names))
	for _, name := range names {
		f[name] = true
	}
	return f
}

// Matches reports whether an instrument is selected.
func (f Filter) Matches(id market.InstrumentID) bool {
	return len(f) == 0 || f[id.Symbol] || f[id.String()]
}

// Values of American shares: they settle a day after the trade, and have prices in dollars with up
// to four decimals.
const (
	equityTerm     = "24hs"
	equityDecimals = 4
)

// Equity returns the definition of an American share.
func Equity(symbol, mkt string) market.Instrument {
	return market.Instrument{
		ID:             market.InstrumentID{Symbol: symbol, Market: mkt, Term: equityTerm},
		Name:           symbol,
		Kind:           "equity",
		Currency:       "USD",
		SettlementDays: 1,
		PriceDecimals:  equityDecimals,
		VirtualClock:   true,
	}
}

// WholeMarket returns the definition of a market as a whole.
func WholeMarket(mkt string) market.Instrument {
	return market.Instrument{ID: market.InstrumentID{Symbol: market.Any, Market: mkt, Term: market.Any}, VirtualClock: true}
}

// Opposite returns the aggressor side of a trade, given the side of the resting order.
func Opposite(s market.Side) market.Side {
	switch s {
	case market.Buy:
		return market.Sell
	case market.Sell:
		return market.Buy
	}
	return market.NoSide
}

// HaltReason converts the code of a halt at American exchanges to a reason word, "" if there is
// none.
func HaltReason(code []byte) string {
	code = bytes.TrimRight(code, " \x00")
	switch string(code) {
	case "", "NA":
		return ""
	case "T1":
		return "news_pending"
	case "T2":
		return "news_released"
	case "T3":
		return "news_and_resumption_times"
	case "T5":
		return "trading_pause"
	case "T6":
		return "extraordinary_market_activity"
	case "T8":
		return "etf"
	case "T12":
		return "information_requested"
	case "H4":
		return "non_compliance"
	case "H9":
		return "filings_not_current"
	case "H10":
		return "sec_suspension"
	case "H11":
		return "regulatory_concern"
	case "LUDP", "LUDS":
		return "volatility_pause"
	case "MWC0", "MWC1", "MWC2", "MWC3", "MCB1", "MCB2", "MCB3", "MCBO":
		return "market_wide_circuit_breaker"
	case "IPO1":
		return "ipo_not_yet_trading"
	case "IPOD":
		return "ipo_deferred"
	case "IPOQ", "IPO2":
		return "ipo_quotation"
	case "IPO3":
		return "ipo_pre_launch"
	case "IPOE":
		return "ipo_window_extended"
	case "M1":
		return "corporate_action"
	case "M2":
		return "quotation_not_available"
	case "O1":
		return "operational_halt"
	case "R4", "R9", "C3", "C4", "C9", "C11", "R1", "R2":
		return "resumption"
	}
	return "other"
}
