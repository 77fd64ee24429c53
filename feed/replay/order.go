package replay

import (
	"cmp"
	"slices"
	"time"

	"github.com/ruedahq/rueda/market"
)

// arrived puts events that stand in the order of their arrival in that of their times. A server sends what it has topic by
// topic, so that an event of one instrument may come before an older one of another. Those who tell the time of a market by its
// newest event, as bars do, would be ahead of the second: at 600 times the market's speed by minutes. What one
// channel tells of an instrument keeps its order, whatever its times are.
type arrived struct {
	held   []arrival
	bytes  int   // that are held
	most   int   // that may be; 0: maxArrived
	order  []int // of held, by their places
	block  []byte
	placed [][numRows]int64 // by handle: the places of the newest events
	newest int64            // receive time
	behind int64            // the newest receive time at which old events were still to come
	passed int64            // the last place that was given
	late   int              // trades that came when later places had been given
	full   int              // how often events were given since there were too many
	events []market.Event   // that are given, with their levels
	levels []market.Level
}

// arrival is an event that is held back until those have come that may belong before it.
type arrival struct {
	place   int64 // in time
	receive int64
	packed  []byte // the event: as it is it takes five times as much, and of books many are held
}

// row is what keeps its order among the events of an instrument.
type row uint8

const (
	ofBook row = iota
	ofTrades
	ofQuotes
	ofStatus
	ofReference
	numRows
)

func rowOf(k market.Kind) row {
	switch k {
	case market.KindTrade, market.KindCancel, market.KindCorrect:
		return ofTrades
	case market.KindQuote:
		return ofQuotes
	case market.KindStatus:
		return ofStatus
	case market.KindReference:
		return ofReference
	}
	return ofBook
}

const (
	// arrivalWindow is how long after others an event may come and still find its place. A gateway that sends more than its
	// client reads has a queue for each channel: at 600 times the market's speed trades came 3 s after the books of their
	// time, and on the newest connection those that were queued come behind CaughtUp.
	arrivalWindow = int64(8 * time.Second)
	maxArrived    = 512 << 20 // bytes that are held
	arrivalBytes  = 64        // that an event takes beside what is packed
	arrivalBlock  = 64 << 10  // bytes of events that share memory
	givenAtOnce   = 256       // events
)

// take takes a copy of an event; its handle is that of a batch.
func (a *arrived) take(e *market.Event) {
	for int(e.Handle) >= len(a.placed) {
		a.placed = append(a.placed, [numRows]int64{})
	}
	kind := rowOf(e.Kind)
	newest := &a.placed[e.Handle][kind]
	*newest = max(e.Time, *newest)
	a.newest = max(a.newest, e.Receive)
	if kind == ofTrades && *newest < a.passed {
		a.late++
	}
	if cap(a.block)-len(a.block) < packedMost(e) {
		a.block = make([]byte, 0, max(arrivalBlock, packedMost(e)))
	}
	n := len(a.block)
	a.block = packEvent(a.block, e)
	a.held = append(a.held, arrival{*newest, e.Receive, a.block[n:len(a.block):len(a.block)]})
	a.bytes += len(a.block) - n + arrivalBytes
}

// due gives the events that nothing can come before any more, or all, in order. behind says that old ones are still to
// come: however long that takes, and however often the connection is lost meanwhile, what belongs behind them waits. Only where
// they are too many those of the earlier times go, so that what comes before them is late. The events that are given
// are valid until give returns.
func (a *arrived) due(behind, all bool, give func([]market.Event) error) error {
	if behind {
		a.behind = a.newest
	}
	if len(a.held) == 0 {
		return nil
	}
	most := cmp.Or(a.most, maxArrived)
	full := a.bytes >= most
	if !all && !full && (a.newest-a.behind < arrivalWindow || a.newest-a.held[0].receive < 2*arrivalWindow) {
		return nil
	}
	a.order = a.order[:0]
	for i := range a.held {
		a.order = append(a.order, i)
	}
	slices.SortFunc(a.order, func(x, y int) int { return cmp.Or(cmp.Compare(a.held[x].place, a.held[y].place), x-y) })
	switch {
	case all:
		a.passed = max(a.passed, a.held[a.order[len(a.order)-1]].place)
	case full:
		a.full++
		a.order = a.order[:len(a.order)/2+1]
		a.passed = max(a.passed, a.held[a.order[len(a.order)-1]].place)
	default:
		a.order = a.order[:a.settled()]
	}
	return a.give(give)
}

// settled is how many of the events in order can be given: those up to the last one that has waited for long enough.
func (a *arrived) settled() int {
	for n := len(a.order); n > 0; n-- {
		w := &a.held[a.order[n-1]]
		if a.newest-w.receive >= arrivalWindow {
			a.passed = max(a.passed, w.place)
			return n
		}
	}
	return 0
}

// give gives the events that are in order, and holds them no more. An event is due no later than those behind it: of what was
// sent again after a lost connection nothing waits for the time when it came.
func (a *arrived) give(give func([]market.Event) error) error {
	for i := len(a.order) - 2; i >= 0; i-- {
		w := &a.held[a.order[i]]
		w.receive = min(w.receive, a.held[a.order[i+1]].receive)
	}
	for list := range slices.Chunk(a.order, givenAtOnce) {
		clear(a.events)
		a.events, a.levels = a.events[:0], a.levels[:0]
		for _, i := range list {
			w := &a.held[i]
			e := market.Event{Receive: w.receive}
			a.levels = unpackEvent(w.packed, &e, a.levels)
			a.events = append(a.events, e)
			a.bytes -= len(w.packed) + arrivalBytes
			w.packed = nil
		}
		if err := give(a.events); err != nil {
			return err
		}
	}
	a.held = slices.DeleteFunc(a.held, func(w arrival) bool { return w.packed == nil })
	return nil
}
