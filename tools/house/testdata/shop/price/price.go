// Package price has prices.
package price

// Price is a price.
type Price struct{ Cents int }

// Zero is nothing.
var Zero = Price{}

// Double returns twice a price.
func (p Price) Double() Price { return Price{2 * p.Cents} }
