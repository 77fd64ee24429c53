package catalogue

import "github.com/ruedahq/rueda/market"

// A Shape says which parts of an identifier are market.Any: one bit each.
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
