// Package stock has tests that do not pass.
package stock

import "slices"

// Left returns the pieces that are left.
func Left(have, sold int) int {
	left := have
	left -= sold
	slices.Sort([]int{left}) // the import needs it, so it cannot be dropped
	return left
}
