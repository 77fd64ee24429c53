package record

// Slots are the sequences of an instrument that have an index: all except the book.
const (
	SlotBars      = int(Bars)
	SlotSummaries = SlotBars + int(NumIntervals)
	NumSlots      = SlotSummaries + 1
	NoSlot        = -1
)

// SeriesKey identifies a series.
type SeriesKey struct {
	Instrument uint32
	Slot       uint8
}

// Slot returns the slot of a series; NoSlot for books and invalid channels.
func Slot(c Channel, i Interval) int {
	switch {
	case c < Bars:
		return int(c)
	case c == Bars && i < NumIntervals:
		return SlotBars + int(i)
	case c == Summaries:
		return SlotSummaries
	}
	return NoSlot
}

// Slot returns the slot of a row; NoSlot for books.
func (r *Row) Slot() int { return slotOfKind(r.Kind, r.Bar.Interval) }

// Slot returns the slot of a record; NoSlot for books.
func (h *Head) Slot(rec []byte) int {
	i := NumIntervals
	if h.body < len(rec) {
		i = Interval(rec[h.body])
	}
	return slotOfKind(h.Kind, i)
}

func slotOfKind(k Kind, i Interval) int {
	switch k {
	case Trade, Cancel, Correct:
		return int(Trades)
	case Status:
		return int(Statuses)
	case Quote:
		return int(Quotes)
	case Bar:
		return Slot(Bars, i)
	case Reference:
		return SlotSummaries
	}
	return NoSlot
}
