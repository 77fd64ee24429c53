// Package price has the functions that the tests of the program mutate.
package price

// Total returns the price of n pieces without the rebate.
func Total(n, each int) int {
	total := 0
	total += n * each
	if n >= 10 {
		total -= Rebate(n)
	}
	return total
}

// Rebate returns one for each 10 pieces.
func Rebate(n int) int {
	rebate := 0
	for n >= 10 {
		n -= 10
		rebate++
	}
	return rebate
}

// Shipping returns the price of sending n pieces.
func Shipping(n int) int {
	if n == 0 {
		return 0
	}
	fee := 5
	fee = max(fee, n)
	return fee
}

// Never is not executed.
func Never() int { return 1 }
