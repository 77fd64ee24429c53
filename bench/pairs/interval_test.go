package pairs

import (
	"math/big"
	"testing"
)

// TestMedianRank compares the probabilities of the ranks with sums of exact binomial coefficients.
func TestMedianRank(t *testing.T) {
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
