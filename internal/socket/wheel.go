package socket

import "math/bits"

// A wheel finds the connections of a shard whose time has come. A connection is
// linked into the slot of its deadline; one whose deadline moves later stays where it
// is and is asked again when that slot comes, which makes the deadline of a
// connection that is served all the time cost nothing.
//
// It works at the end of a slot, so that what comes due within one costs one turn of
// the shard. An exact wheel works to the nanosecond instead: it is that of shards whose
// connections have goroutines of their own, and of tests whose time stands still.
type wheel struct {
	exact bool
	size  int
	at    int64                   // the slot to look at next, counted from moment 0
	slots [wheelSlots]*conn       // by slot modulo their number
	used  [wheelSlots / 64]uint64 // slots that may hold something
	soon  moment                  // of an exact wheel: nothing is due before
}

const (
	slotBits   = 24 // 16.8 ms
	wheelSlots = 1024
	never      = moment(1<<63 - 1)
)

// A moment is a time in nanoseconds since the server was made; 0 is none.
type moment int64

func (m moment) slot() int64 { return int64(m) >> slotBits }

// set gives c a deadline, if it has an earlier one than before.
func (w *wheel) set(c *conn, due moment) {
	if due == 0 || c.linked() && due >= c.due {
		return
	}
	w.drop(c)
	c.due = due
	w.link(c)
}

func (w *wheel) link(c *conn) {
	slot := max(c.due.slot(), w.at) % wheelSlots
	head := &w.slots[slot]
	if c.next = *head; c.next != nil {
		c.next.back = &c.next
	}
	*head, c.back = c, head
	w.used[slot/64] |= 1 << (slot % 64)
	w.soon = min(w.soon, c.due)
	w.size++
}

// drop takes c off. It may be off already.
func (w *wheel) drop(c *conn) {
	if !c.linked() {
		return
	}
	if *c.back = c.next; c.next != nil {
		c.next.back = c.back
	}
	c.next, c.back = nil, nil
	w.size--
}

func (c *conn) linked() bool { return c.back != nil }

// due calls f for each connection whose deadline has come, after taking it off.
func (w *wheel) due(now moment, f func(*conn)) {
	last := now.slot() - 1 // the present slot is not over yet
	if w.exact {
		last++
	}
	if w.exact && now < w.soon {
		return
	}
	if last-w.at > wheelSlots {
		w.at = last - wheelSlots // one time round is enough
	}
	for w.at <= last {
		slot := w.at
		if w.exact && slot == last { // there may be more in it, later
			w.look(slot%wheelSlots, now, f)
			break
		}
		w.at++ // first, since what f links goes into slots that are still to come
		w.look(slot%wheelSlots, now, f)
	}
	if w.exact {
		w.soon = w.soonest(now)
	}
}

// look goes through one slot. f may link and drop whatever it likes.
func (w *wheel) look(slot int64, now moment, f func(*conn)) {
	if w.used[slot/64]&(1<<(slot%64)) == 0 {
		return
	}
	w.used[slot/64] &^= 1 << (slot % 64)
	// The slot's connections move to a list of this call, so that those which are put back are
	// not met again.
	list := w.slots[slot]
	w.slots[slot] = nil
	if list != nil {
		list.back = &list
	}
	for list != nil {
		c := list
		w.drop(c)
		if c.due > now {
			w.link(c) // another time round
			continue
		}
		f(c)
	}
}

// next is when due is to be called again; never: it need not be.
func (w *wheel) next() moment {
	if w.size == 0 {
		return never
	}
	if w.exact {
		return w.soon
	}
	for i := int64(0); i < wheelSlots; {
		slot := w.at + i
		if word := w.used[slot%wheelSlots/64] >> (slot % 64); word != 0 {
			return moment(slot+int64(bits.TrailingZeros64(word))+1) << slotBits
		}
		i += 64 - slot%64
	}
	return never
}

// soonest is a lower bound of the deadlines, exact where the first is within one time round.
func (w *wheel) soonest(now moment) moment {
	for i := range int64(wheelSlots) {
		slot, soon := w.at+i, never
		for c := w.slots[slot%wheelSlots]; c != nil; c = c.next {
			if c.due.slot() <= slot {
				soon = min(soon, c.due)
			}
		}
		if soon != never {
			return soon
		}
	}
	if w.size == 0 {
		return never
	}
	return now + wheelSlots<<slotBits
}
