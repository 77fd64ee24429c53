package cart

import "example.com/shop/price"

// Empty removes all prices.
func (c *Cart) Empty() { c.Total, c.Items = price.Zero, 0 }
