package price

func windowsFee(n int) int {
	if n == 0 {
		return 0
	}
	fee := 5
	fee = max(fee, n)
	return fee
}
