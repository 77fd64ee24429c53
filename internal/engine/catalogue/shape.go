package catalogue

import "github.com/ruedahq/rueda/market"

// A Shape has one bit for each part of an identifier. It is set if the part is market.Any.
type Shape uint8

const (
	anySymbol Shape = 1 << iota
	anyMarket
	anyTerm
	NumShapes
)

// ShapeOf returns the shape of an identifier.
func ShapeOf(id market.InstrumentID) (s Shape) {
	if id.Symbol == market.Any {
		s |= anySymbol
	}
	if id.Market == market.Any {
		s |= anyMarket
	}
	if id.Term == market.Any {
		s |= anyTerm
	}
	return s
}

// Pattern returns the pattern of the shape that covers an identifier.
func (s Shape) Pattern(id market.InstrumentID) market.InstrumentID {
	if s&anySymbol != 0 {
		id.Symbol = market.Any
	}
	if s&anyMarket != 0 {
		id.Market = market.Any
	}
	if s&anyTerm != 0 {
		id.Term = market.Any
	}
	return id
}

// Overlap reports whether two identifiers may cover the same instrument.
func Overlap(a, b market.InstrumentID) bool {
	meet := func(x, y string) bool { return x == y || x == market.Any || y == market.Any }
	return meet(a.Symbol, b.Symbol) && meet(a.Market, b.Market) && meet(a.Term, b.Term)
}

// Common returns the identifier of the instruments that two overlapping identifiers both cover.
func Common(a, b market.InstrumentID) market.InstrumentID {
	part := func(x, y string) string {
		if x == market.Any {
			return y
		}
		return x
	}
	return market.InstrumentID{Symbol: part(a.Symbol, b.Symbol), Market: part(a.Market, b.Market), Term: part(a.Term, b.Term)}
}
