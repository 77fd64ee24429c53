package socket

import (
	"container/heap"
	"time"
)

// timers is the heap of a shard's connections by their next deadline: one
// time.Timer serves them all.
type timers []*conn

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].deadline.Before(t[j].deadline) }

func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].slot, t[j].slot = i, j
}

// Push is for package heap.
func (t *timers) Push(x any) {
	c := x.(*conn)
	c.slot = len(*t)
	*t = append(*t, c)
}

// Pop is for package heap.
func (t *timers) Pop() any {
	last := len(*t) - 1
	c := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	c.slot = noSlot
	return c
}

const noSlot = -1

// set gives c a deadline; the zero time takes it away.
func (t *timers) set(c *conn, deadline time.Time) {
	switch {
	case c.slot == noSlot && deadline.IsZero():
	case c.slot == noSlot:
		c.deadline = deadline
		heap.Push(t, c)
	case deadline.IsZero():
		heap.Remove(t, c.slot)
	case !deadline.Equal(c.deadline):
		c.deadline = deadline
		heap.Fix(t, c.slot)
	}
}

// due takes off a connection whose deadline has come; nil when there is none.
func (t *timers) due(now time.Time) *conn {
	if len(*t) == 0 || (*t)[0].deadline.After(now) {
		return nil
	}
	return heap.Pop(t).(*conn)
}

// next is the earliest deadline; ok is false when there is none.
func (t timers) next() (deadline time.Time, ok bool) {
	if len(t) == 0 {
		return time.Time{}, false
	}
	return t[0].deadline, true
}
