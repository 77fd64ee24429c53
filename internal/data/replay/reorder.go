package replay

import (
	"cmp"
	"slices"
	"time"

	"github.com/ruedahq/rueda/market"
)

// reorderBuffer sorts events by time that are recorded in order of arrival. A server sends its data
// topic by topic, so an event of one instrument may come before an older one of another. A reader
// that takes the newest event time as the time of the market, as bars do, would then be ahead of
// the older event: by minutes, at 600 times the market's speed. Events of one channel of an
// instrument keep their order, whatever their times.
type reorderBuffer struct {
	held        []heldEvent
	bytes       int   // used by held
	maxBytes    int   // limit of bytes; 0: maxHeldBytes
	order       []int // indexes into held, sorted by time
	block       []byte
	newestTimes [][numSeries]int64 // by handle: the newest times
	newest      int64              // receive time
	catchUpTime int64              // newest receive time with old events still expected
	emitted     int64              // time of the newest event that was emitted
	late        int                // trades that arrived after later events were emitted
	overflows   int                // times that events were emitted early for lack of memory
	events      []market.Event     // being emitted, with their levels
	levels      []market.Level
}

// heldEvent is an event that is held until no earlier event can arrive.
type heldEvent struct {
	time    int64 // event time, at least that of the event before it in its series
	receive int64
	packed  []byte // the encoded event; it is five times smaller, and books have many events
}

// series is a channel whose events of an instrument keep their order.
type series uint8

const (
	ofBook series = iota
	ofTrades
	ofQuotes
	ofStatus
	ofReference
	numSeries
)

func seriesOf(k market.Kind) series {
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
	// reorderWindow is how much later than others an event may arrive and still be sorted. A
	// gateway that sends more than its client reads queues each channel separately. At 600 times
	// the market's speed, trades arrived 3 s after the books of their time. On a new connection,
	// the queued trades arrive after CaughtUp.
	reorderWindow = int64(8 * time.Second)
	maxHeldBytes  = 512 << 20 // bytes in held
	heldEventSize = 64        // size of a heldEvent, besides the encoded event
	blockSize     = 64 << 10  // bytes of encoded events that share memory
	maxEmit       = 256       // events
)

// add adds a copy of an event. Its handle is one of a batch.
func (a *reorderBuffer) add(e *market.Event) {
	for int(e.Handle) >= len(a.newestTimes) {
		a.newestTimes = append(a.newestTimes, [numSeries]int64{})
	}
	kind := seriesOf(e.Kind)
	newest := &a.newestTimes[e.Handle][kind]
	*newest = max(e.Time, *newest)
	a.newest = max(a.newest, e.Receive)
	if kind == ofTrades && *newest < a.emitted {
		a.late++
	}
	if cap(a.block)-len(a.block) < maxPacked(e) {
		a.block = make([]byte, 0, max(blockSize, maxPacked(e)))
	}
	n := len(a.block)
	a.block = packEvent(a.block, e)
	a.held = append(a.held, heldEvent{*newest, e.Receive, a.block[n:len(a.block):len(a.block)]})
	a.bytes += len(a.block) - n + heldEventSize
}

// flush emits, in order, the events before which no other can arrive, or all events. catchingUp
// reports that old events are still expected; later events are then held for as long as that takes,
// even across lost connections. If they exceed the memory limit, the earliest half is emitted, and
// earlier events that arrive afterwards are late. The events passed to emit are valid until it
// returns.
func (a *reorderBuffer) flush(catchingUp, all bool, emit func([]market.Event) error) error {
	if catchingUp {
		a.catchUpTime = a.newest
	}
	if len(a.held) == 0 {
		return nil
	}
	maxBytes := cmp.Or(a.maxBytes, maxHeldBytes)
	full := a.bytes >= maxBytes
	if !all && !full && (a.newest-a.catchUpTime < reorderWindow || a.newest-a.held[0].receive < 2*reorderWindow) {
		return nil
	}
	a.order = a.order[:0]
	for i := range a.held {
		a.order = append(a.order, i)
	}
	slices.SortFunc(a.order, func(x, y int) int { return cmp.Or(cmp.Compare(a.held[x].time, a.held[y].time), x-y) })
	switch {
	case all:
		a.emitted = max(a.emitted, a.held[a.order[len(a.order)-1]].time)
	case full:
		a.overflows++
		a.order = a.order[:len(a.order)/2+1]
		a.emitted = max(a.emitted, a.held[a.order[len(a.order)-1]].time)
	default:
		a.order = a.order[:a.ready()]
	}
	return a.emit(emit)
}

// ready returns how many of the sorted events can be emitted: those up to the last one that has
// been held long enough.
func (a *reorderBuffer) ready() int {
	for n := len(a.order); n > 0; n-- {
		w := &a.held[a.order[n-1]]
		if a.newest-w.receive >= reorderWindow {
			a.emitted = max(a.emitted, w.time)
			return n
		}
	}
	return 0
}

// emit emits the sorted events and removes them. An event is due no later than those after it, so
// that replayed events of a lost connection do not wait for the time at which they arrived.
func (a *reorderBuffer) emit(emit func([]market.Event) error) error {
	for i := len(a.order) - 2; i >= 0; i-- {
		w := &a.held[a.order[i]]
		w.receive = min(w.receive, a.held[a.order[i+1]].receive)
	}
	for list := range slices.Chunk(a.order, maxEmit) {
		clear(a.events)
		a.events, a.levels = a.events[:0], a.levels[:0]
		for _, i := range list {
			w := &a.held[i]
			e := market.Event{Receive: w.receive}
			a.levels = unpackEvent(w.packed, &e, a.levels)
			a.events = append(a.events, e)
			a.bytes -= len(w.packed) + heldEventSize
			w.packed = nil
		}
		if err := emit(a.events); err != nil {
			return err
		}
	}
	a.held = slices.DeleteFunc(a.held, func(w heldEvent) bool { return w.packed == nil })
	return nil
}
