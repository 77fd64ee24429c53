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
	order  []int // of held, by their places
	ready  []market.Event
	placed [][numRows]int64 // by handle: the places of the newest events
	levels []market.Level
	newest int64 // receive time
	passed int64 // the last place that was given
	window int64 // how long is waited; 0: arrivalWindow
}

// arrival is an event that is held back until those have come that may belong before it.
type arrival struct {
	place int64 // in time
	event market.Event
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
	// arrivalWindow is how long after others an event may come and still find its place. A gateway at 600 times the market's
	// speed sent what belongs together within 0.28 s, to a client that was slow. It is doubled with each event that comes
	// later, for clients that are slower.
	arrivalWindow = int64(500 * time.Millisecond)
	longestWindow = int64(8 * time.Second)
	longestBehind = int64(30 * time.Second) // that a recorder is waited for to have caught up
	maxArrived    = 1 << 18                 // events that are held
)

// take takes a copy of an event; its handle is that of a batch.
func (a *arrived) take(e *market.Event) {
	for int(e.Handle) >= len(a.placed) {
		a.placed = append(a.placed, [numRows]int64{})
	}
	newest := &a.placed[e.Handle][rowOf(e.Kind)]
	*newest = max(e.Time, *newest)
	a.newest = max(a.newest, e.Receive)
	a.window = max(a.window, arrivalWindow)
	if *newest < a.passed {
		a.window = min(2*a.window, longestWindow) // it came too late
	}
	w := arrival{*newest, *e}
	w.event.Bids, w.event.Asks = a.keep(e.Bids), a.keep(e.Asks)
	a.held = append(a.held, w)
}

// keep copies levels into blocks that live as long as any event in them.
func (a *arrived) keep(list []market.Level) []market.Level {
	if len(list) == 0 {
		return nil
	}
	if cap(a.levels)-len(a.levels) < len(list) {
		a.levels = make([]market.Level, 0, max(4096, len(list)))
	}
	n := len(a.levels)
	a.levels = append(a.levels, list...)
	return a.levels[n:len(a.levels):len(a.levels)]
}

// due gives the events that nothing can come before any more, or all, in order. behind says that old ones are still to
// come. They are valid until the next call.
func (a *arrived) due(behind, all bool) []market.Event {
	clear(a.ready)
	a.ready = a.ready[:0]
	if len(a.held) == 0 {
		return nil
	}
	full := len(a.held) >= maxArrived
	waited := a.newest - a.held[0].event.Receive
	if !all && !full && (waited < 2*a.window || behind && waited < longestBehind) {
		return nil
	}
	last := int64(-1 << 63) // of the places that are due
	for i := range a.held {
		w := &a.held[i]
		if !all && a.newest-w.event.Receive < a.window && !(full && i < len(a.held)/2) {
			break
		}
		last = max(last, w.place)
	}
	a.order = a.order[:0]
	for i := range a.held {
		if a.held[i].place <= last {
			a.order = append(a.order, i)
		}
	}
	slices.SortFunc(a.order, func(x, y int) int { return cmp.Or(cmp.Compare(a.held[x].place, a.held[y].place), x-y) })
	for _, i := range a.order {
		a.ready = append(a.ready, a.held[i].event)
	}
	a.held = slices.DeleteFunc(a.held, func(w arrival) bool { return w.place <= last })
	a.passed = max(a.passed, last)
	return a.ready
}
