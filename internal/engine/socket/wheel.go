package socket

import "math/bits"

// wheel is the timer wheel of a shard. A connection is in the slot of its deadline. If the deadline
// moves to a later time, the connection stays in its slot and is checked again when that is due, so
// frequent changes of a deadline cost nothing.
//
// Timers run at the end of a slot, which takes one iteration for all of them. An exact wheel runs
// them to the nanosecond: shards without an event loop and tests in a synctest bubble use it.
type wheel struct {
	exact    bool
	size     int
	nextSlot int64                   // number of the next slot to check
	slots    [wheelSlots]*conn       // index: number modulo wheelSlots
	used     [wheelSlots / 64]uint64 // slots that may have entries
	earliest deadline                // exact wheel only: lower bound of all deadlines
}

const (
	slotBits   = 24 // 16.8 ms
	wheelSlots = 1024
	never      = deadline(1<<63 - 1)
)

// deadline is a time in nanoseconds since the server's origin; 0: none.
type deadline int64

func (m deadline) slot() int64 { return int64(m) >> slotBits }

// set gives c a deadline, unless it has an earlier one.
func (w *wheel) set(c *conn, due deadline) {
	if due == 0 || c.linked() && due >= c.deadline {
		return
	}
	w.remove(c)
	c.deadline = due
	w.link(c)
}

func (w *wheel) link(c *conn) {
	slot := max(c.deadline.slot(), w.nextSlot) % wheelSlots
	head := &w.slots[slot]
	if c.next = *head; c.next != nil {
		c.next.back = &c.next
	}
	*head, c.back = c, head
	w.used[slot/64] |= 1 << (slot % 64)
	w.earliest = min(w.earliest, c.deadline)
	w.size++
}

// remove removes c from the wheel, if the wheel has it.
func (w *wheel) remove(c *conn) {
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

// runTimers removes the connections that are due and calls f for each.
func (w *wheel) runTimers(now deadline, f func(*conn)) {
	last := now.slot() - 1 // the current slot is not over
	if w.exact {
		last++
	}
	if w.exact && now < w.earliest {
		return
	}
	if last-w.nextSlot > wheelSlots {
		w.nextSlot = last - wheelSlots // one round covers all slots
	}
	for w.nextSlot <= last {
		slot := w.nextSlot
		if w.exact && slot == last { // later entries of this slot are not due
			w.runSlot(slot%wheelSlots, now, f)
			break
		}
		w.nextSlot++ // first: f may link into later slots
		w.runSlot(slot%wheelSlots, now, f)
	}
	if w.exact {
		w.earliest = w.findEarliest(now)
	}
}

// runSlot runs the timers of one slot. f may call link and remove.
func (w *wheel) runSlot(slot int64, now deadline, f func(*conn)) {
	if w.used[slot/64]&(1<<(slot%64)) == 0 {
		return
	}
	w.used[slot/64] &^= 1 << (slot % 64)
	// Move the entries to a local list, so that entries which are linked again are not visited
	// twice.
	list := w.slots[slot]
	w.slots[slot] = nil
	if list != nil {
		list.back = &list
	}
	for list != nil {
		c := list
		w.remove(c)
		if c.deadline > now {
			w.link(c) // a later round
			continue
		}
		f(c)
	}
}

// next returns when runTimers must be called; never if there is no timer.
func (w *wheel) next() deadline {
	if w.size == 0 {
		return never
	}
	if w.exact {
		return w.earliest
	}
	for i := int64(0); i < wheelSlots; {
		slot := w.nextSlot + i
		if word := w.used[slot%wheelSlots/64] >> (slot % 64); word != 0 {
			return deadline(slot+int64(bits.TrailingZeros64(word))+1) << slotBits
		}
		i += 64 - slot%64
	}
	return never
}

// findEarliest returns a lower bound of the deadlines, exact if the first is within one round.
func (w *wheel) findEarliest(now deadline) deadline {
	for i := range int64(wheelSlots) {
		slot, earliest := w.nextSlot+i, never
		for c := w.slots[slot%wheelSlots]; c != nil; c = c.next {
			if c.deadline.slot() <= slot {
				earliest = min(earliest, c.deadline)
			}
		}
		if earliest != never {
			return earliest
		}
	}
	if w.size == 0 {
		return never
	}
	return now + wheelSlots<<slotBits
}
