// Package cart imports package price.
package cart

import "example.com/shop/price"

// Sum returns the price of n pieces with their shipping.
func Sum(n int) int {
	sum := price.Total(n, 1)
	sum += price.Shipping(n)
	return sum
}
