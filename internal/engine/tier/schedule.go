package tier

import "time"

// intervals are the intervals of conflated tiers, in milliseconds.
var intervals = [...]int{100, 250, 1000}

// Schedule has the conflated tiers that have changed. Those of one interval are due together, at
// whole multiples of the interval. Its caller gives it the time of a monotonic clock, in ns. The
// zero Schedule is empty.
type Schedule[T any] struct {
	waits [len(intervals)]struct {
		due   int64 // 0: no tier waits
		tiers []T
		spare []T // empty; memory for the tiers of the next interval
	}
}

// Add schedules a tier for the end of its interval in milliseconds. first reports whether no other
// tier waits for it.
func (s *Schedule[T]) Add(interval int, t T, now int64) (first bool) {
	for i, ms := range intervals {
		if ms != interval {
			continue
		}
		w := &s.waits[i]
		w.tiers = append(w.tiers, t)
		if first = w.due == 0; first {
			length := int64(ms) * 1e6
			w.due = now - now%length + length
		}
	}
	return first
}

// Flush calls send for each tier that is due. send may add tiers.
func (s *Schedule[T]) Flush(now int64, send func(t T)) {
	for i := range s.waits {
		w := &s.waits[i]
		if w.due == 0 || w.due > now {
			continue
		}
		list := w.tiers
		w.tiers, w.spare, w.due = w.spare, nil, 0
		for _, t := range list {
			send(t)
		}
		clear(list)
		w.spare = list[:0]
	}
}

// Next returns how long it takes until a tier is due, or 0 if none waits.
func (s *Schedule[T]) Next(now int64) (wait time.Duration) {
	for i := range s.waits {
		if due := s.waits[i].due; due > 0 && (wait == 0 || time.Duration(due-now) < wait) {
			wait = max(1, time.Duration(due-now))
		}
	}
	return wait
}
