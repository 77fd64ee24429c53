// Package cart has carts.
package cart

import "example.com/shop/price"

// Cart is a list of prices.
type Cart struct {
	Total price.Price
	Items int
}

// Add adds a price twice.
func (c *Cart) Add(p price.Price) {
	c.Total.Cents += p.Double().Cents
	c.Items++
}
