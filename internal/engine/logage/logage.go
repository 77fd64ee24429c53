// Package logage knows which part of a log is as old as a delay.
//
// [Samples] has positions of the log at times of a monotonic clock, in ns. A row is due when the
// first sample at or after its position is as old as the delay. Therefore no row is early, and no
// row is much later than its time.
package logage

import "slices"

// Samples has the positions of a log during the last delay, at most one in each interval. Use New
// to create one.
type Samples struct {
	list  []sample
	delay int64
	every int64
}

// sample has the position of the log at a time.
type sample struct {
	time     int64
	position uint64
}

// New returns Samples for a delay, with at most one sample in each interval, both in ns.
func New(delay, interval int64) Samples { return Samples{delay: delay, every: interval} }

// Note adds the position that the log has now.
func (s *Samples) Note(now int64, pos uint64) {
	n := len(s.list)
	switch {
	case n > 0 && s.list[n-1].position == pos:
	case n > 1 && now-s.list[n-2].time < s.every:
		s.list[n-1] = sample{now, pos}
	default:
		if n == cap(s.list) {
			s.list = slices.Delete(s.list, 0, s.passed(now))
		}
		s.list = append(s.list, sample{now, pos})
	}
}

// passed returns the number of samples before the newest one that is as old as the delay.
func (s *Samples) passed(now int64) (n int) {
	for n+1 < len(s.list) && s.list[n+1].time+s.delay <= now {
		n++
	}
	return n
}

// Due returns the position up to which rows are as old as the delay, or 0 if none are. next is the
// time at which more rows are due, or 0 if there are no more.
func (s *Samples) Due(now int64) (pos uint64, next int64) {
	s.list = slices.Delete(s.list, 0, s.passed(now))
	for _, x := range s.list {
		if x.time+s.delay > now {
			return pos, x.time + s.delay
		}
		pos = x.position
	}
	return pos, 0
}
