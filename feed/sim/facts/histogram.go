package facts

import (
	"math"
	"slices"
)

// histogram holds weights of positive values on a logarithmic scale, with bins of 1 %.
type histogram struct {
	bins  map[int32]float64
	total float64
}

const binWidth = 0.01

func (h *histogram) add(value, weight float64) {
	if !(value > 0) || !(weight > 0) {
		return
	}
	if h.bins == nil {
		h.bins = make(map[int32]float64)
	}
	h.bins[int32(math.Round(math.Log(value)/binWidth))] += weight
	h.total += weight
}

// merge adds x, scaled to a total weight of 1.
func (h *histogram) merge(x *histogram) {
	if x.total == 0 {
		return
	}
	if h.bins == nil {
		h.bins = make(map[int32]float64)
	}
	for _, bin := range x.sorted() { // a fixed order makes floating-point sums reproducible
		h.bins[bin] += x.bins[bin] / x.total
	}
	h.total++
}

func (h *histogram) sorted() []int32 {
	keys := make([]int32, 0, len(h.bins))
	for k := range h.bins {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// quantile returns the value below which the share q of the weight lies, or NaN if there is none.
func (h *histogram) quantile(q float64) float64 {
	left := q * h.total
	keys := h.sorted()
	for _, bin := range keys {
		if left -= h.bins[bin]; left <= 0 {
			return math.Exp(float64(bin) * binWidth)
		}
	}
	if len(keys) > 0 {
		return math.Exp(float64(keys[len(keys)-1]) * binWidth)
	}
	return math.NaN()
}

func (h *histogram) quantiles() [3]float64 {
	return [3]float64{h.quantile(.1), h.quantile(.5), h.quantile(.9)}
}
