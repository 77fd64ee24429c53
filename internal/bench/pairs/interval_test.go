package pairs

import (
	"math/big"
	"testing"
)

// TestMedianRank compares the ranks with those of a published table (95 % of the sign test), and
// their probabilities with sums of exact binomial coefficients.
func TestMedianRank(t *testing.T) {
	table := map[int]int{
		1: 0, 5: 0, 6: 1, 7: 1, 8: 1, 9: 2, 10: 2, 11: 2, 12: 3, 13: 3, 14: 3, 15: 4, 16: 4,
		17: 5, 18: 5, 19: 5, 20: 6, 21: 6, 22: 6, 23: 7, 24: 7, 25: 8, 30: 10, 40: 14, 50: 18,
	}
	for n, want := range table {
		if got := medianRank(n); got != want {
			t.Errorf("%d values: rank %d, want %d", n, got, want)
		}
	}
	// outside returns the probability that the median is outside of the ranks k and n+1-k.
	outside := func(n, k int) float64 {
		sum := new(big.Int)
		for i := range k {
			sum.Add(sum, new(big.Int).Binomial(int64(n), int64(i)))
		}
		p, _ := new(big.Rat).SetFrac(sum.Lsh(sum, 1), new(big.Int).Lsh(big.NewInt(1), uint(n))).Float64()
		return p
	}
	for n := 1; n <= 60; n++ {
		k := medianRank(n)
		if outside(n, k) > 0.05 || outside(n, k+1) <= 0.05 {
			t.Errorf("%d values: rank %d misses %.4f, and rank %d %.4f", n, k, outside(n, k), k+1, outside(n, k+1))
		}
	}
}

func TestMedianInterval(t *testing.T) {
	low, high, ok := medianInterval([]float64{9, 1, 8, 2, 7, 3, 6, 4, 5})
	if low != 2 || high != 8 || !ok {
		t.Errorf("the interval of nine values is %v to %v, %v; want their second and eighth", low, high, ok)
	}
	if _, _, ok := medianInterval([]float64{1, 2, 3, 4, 5}); ok {
		t.Error("five values have an interval")
	}
}
