// Package histogram counts durations in fixed buckets, from 50 µs to 10 s. A [Histogram] is a plain
// value: its owner guards it. Adding to it allocates nothing.
//
// This package is pure: no goroutines, no clock, no I/O.
package histogram

import "time"

// bounds are the upper bounds of the buckets, inclusive. One more bucket has the longer durations.
var bounds = [...]time.Duration{
	50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond,
	25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond,
	500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

// Histogram counts durations. The zero Histogram is empty and ready.
type Histogram struct {
	counts [len(bounds) + 1]uint64
	sum    time.Duration
}

// Add counts a duration a number of times. A negative one counts as 0.
func (h *Histogram) Add(d time.Duration, times int) {
	d = max(0, d)
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.counts[i] += uint64(times)
	h.sum += d * time.Duration(times)
}

// Merge adds the durations of another histogram.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.sum += o.sum
}

// Count returns the number of durations.
func (h *Histogram) Count() (n uint64) {
	for _, c := range h.counts {
		n += c
	}
	return n
}

// Sum returns the sum of the durations.
func (h *Histogram) Sum() time.Duration { return h.sum }

// Cumulative returns, for each upper bound in seconds, the number of durations up to it.
func (h *Histogram) Cumulative() map[float64]uint64 {
	out := make(map[float64]uint64, len(bounds))
	n := uint64(0)
	for i, b := range bounds {
		n += h.counts[i]
		out[b.Seconds()] = n
	}
	return out
}

// Quantile returns an upper bound of the duration that a share of all durations does not exceed;
// 0: there are none. Durations above the last bound count as that.
func (h *Histogram) Quantile(share float64) time.Duration {
	all := h.Count()
	if all == 0 {
		return 0
	}
	n := uint64(0)
	for i, b := range bounds {
		if n += h.counts[i]; float64(n) >= share*float64(all) {
			return b
		}
	}
	return bounds[len(bounds)-1]
}
