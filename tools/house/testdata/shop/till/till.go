// Package till has tills.
package till

import (
	"example.com/shop/cart"
	"example.com/shop/price"
)

// Pay empties a cart.
func Pay(c *cart.Cart) price.Price {
	total := c.Total
	c.Empty()
	return total
}
