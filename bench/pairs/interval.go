package pairs

import (
	"math"
	"slices"
)

// Median returns the middle value, or the mean of the two in the middle; 0 without values.
func Median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	list = slices.Sorted(slices.Values(list))
	n := len(list)
	if n%2 == 1 {
		return list[n/2]
	}
	return (list[n/2-1] + list[n/2]) / 2
}

// medianRank returns the greatest rank k for which the k-th smallest and the k-th largest of n
// values enclose the median of their distribution with a confidence of at least 95 %. That holds
// for any distribution (it is the interval of the sign test), if n does not depend on the values.
// Below six values there is no such rank: 0.
func medianRank(n int) int {
	// A value is below the median with probability 1/2. chance is that of exactly k of n, and below
	// that of fewer.
	chance, below := math.Pow(0.5, float64(n)), 0.0
	k := 0
	for ; below+chance <= 0.025; k++ {
		below += chance
		chance *= float64(n-k) / float64(k+1)
	}
	return k
}

// medianInterval returns the interval of medianRank. It returns false if there are too few values.
func medianInterval(list []float64) (low, high float64, ok bool) {
	n, k := len(list), medianRank(len(list))
	if k == 0 {
		return 0, 0, false
	}
	list = slices.Sorted(slices.Values(list))
	return list[k-1], list[n-k], true
}
