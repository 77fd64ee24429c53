package load

import (
	"encoding/json"
	"math/bits"
)

const (
	subBuckets = 64 // of an octave: a bucket is 1.6 % wide
	octaves    = 40 // up to 2^46 ns, which is 19 hours
	buckets    = subBuckets * octaves
)

// Latency is a histogram of times in nanoseconds.
type Latency struct {
	count  uint64
	max    int64
	counts [buckets]uint32
}

// Add adds a time; a negative one, after a clock was set back, counts as 0.
func (l *Latency) Add(ns int64) {
	ns = max(ns, 0)
	l.count++
	l.max = max(l.max, ns)
	l.counts[bucketOf(uint64(ns))]++
}

// bucketOf returns the bucket of a time, linear up to subBuckets and logarithmic above.
func bucketOf(v uint64) int {
	if v < subBuckets {
		return int(v)
	}
	shift := bits.Len64(v) - 7 // 64 <= v>>shift < 128
	return min(shift*subBuckets+int(v>>shift), buckets-1)
}

// bound returns the upper end of a bucket.
func bound(i int) int64 {
	if i < 2*subBuckets {
		return int64(i)
	}
	shift := i/subBuckets - 1
	return (int64(i%subBuckets+subBuckets)+1)<<shift - 1
}

// Count returns the number of times.
func (l *Latency) Count() uint64 { return l.count }

// Max returns the longest time.
func (l *Latency) Max() int64 { return l.max }

// At returns the quantile q; 0 without times.
func (l *Latency) At(q float64) int64 {
	left := uint64(q * float64(l.count))
	for i, n := range l.counts {
		if n > 0 && uint64(n) > left {
			return min(bound(i), l.max)
		}
		left -= uint64(n)
	}
	return l.max
}

// Merge adds the times of other.
func (l *Latency) Merge(other *Latency) {
	if other == nil {
		return
	}
	l.count += other.count
	l.max = max(l.max, other.max)
	for i, n := range other.counts {
		l.counts[i] += n
	}
}

// sparse is the JSON form of a Latency: pairs of bucket and count.
type sparse struct {
	Max    int64
	Counts [][2]uint32
}

// MarshalJSON omits empty buckets.
func (l *Latency) MarshalJSON() ([]byte, error) {
	s := sparse{Max: l.max}
	for i, n := range l.counts {
		if n > 0 {
			s.Counts = append(s.Counts, [2]uint32{uint32(i), n})
		}
	}
	return json.Marshal(s)
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (l *Latency) UnmarshalJSON(b []byte) error {
	var s sparse
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	*l = Latency{max: s.Max}
	for _, c := range s.Counts {
		if int(c[0]) < buckets {
			l.counts[c[0]] = c[1]
			l.count += uint64(c[1])
		}
	}
	return nil
}
