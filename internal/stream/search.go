package stream

import (
	"context"
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/wire"
)

// If the rows of a start are not in memory, the goroutines that read old rows find its points. They
// work on one search for some milliseconds at a time. The host subscribes again when the points
// have been found.

const (
	searchTime = 2 * time.Second  // reading time for one message
	searchWait = 10 * time.Second // longest time until the message is answered; later messages of the client wait
)

// Search finds the points of a start in the journal, or waits for replicas, for one Subscribe.
type Search struct {
	hub   *Hub
	found func()              // is called once, when the search has ended
	ask   []search            // sequences that are not searched yet
	point map[pointKey]uint64 // N of the last row before the start
	place map[pointKey]uint64 // the position before the next row
	used  time.Duration       // reading time
	until int64               // by the hub's clock: when the search fails
	fault *wire.Fault         // why it failed
	over  bool                // guarded by the hub's lock, like the following
	stop  context.CancelFunc  // ends the reading in progress
	gone  bool                // Stop was called
	left  int                 // number of replicas that are being loaded
}

// Over reports whether the search has ended.
func (x *Search) Over() bool {
	x.hub.mu.Lock()
	defer x.hub.mu.Unlock()
	return x.over
}

// Stop gives up the search if it has not ended.
func (x *Search) Stop() {
	h := x.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	x.gone = true
	if x.stop != nil {
		x.stop()
	}
	h.searches = slices.DeleteFunc(h.searches, func(y *Search) bool { return x == y })
}

// fill adds the points that were found, and returns the sequences without a point. A nil Search has
// no points.
func (x *Search) fill(points map[pointKey]uint64, ask []search) (left []search) {
	for _, a := range ask {
		n, ok := uint64(0), false
		if x != nil {
			n, ok = x.point[a.key]
		}
		if !ok {
			left = append(left, a)
			continue
		}
		points[a.key] = min(points[a.key], n)
	}
	return left
}

// next returns a search for the sequences of ask. It has the points and the time limits of this
// one.
func (x *Search) next(h *Hub, ask []search, found func()) *Search {
	y := &Search{hub: h, found: found, ask: ask, until: h.clock() + int64(searchWait), point: map[pointKey]uint64{}, place: map[pointKey]uint64{}}
	if x != nil {
		y.point, y.place, y.until, y.used = x.point, x.place, x.until, x.used
	}
	return y
}

// begin passes a search to the readers of the journal. It returns false if there are no readers, or
// if found is nil.
func (x *Search) begin() bool {
	h := x.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.readers || x.found == nil {
		return false
	}
	h.searches = append(h.searches, x)
	h.callReader()
	return true
}

// read searches for about the time limit. more reports whether sequences are left.
func (x *Search) read(ctx context.Context, limit time.Duration) (more bool) {
	begin := time.Now()
	defer func() { x.used += time.Since(begin) }()
	timed, cancel := context.WithTimeout(ctx, searchTime-x.used)
	defer cancel()
	for len(x.ask) > 0 {
		a := x.ask[0]
		n, pos := a.first-1, uint64(0)
		err := x.hub.cfg.Journal.Read(timed, a.series, journal.Range{Epoch: x.hub.epoch, ToN: a.first, Start: a.from}, func(_ string, r *journal.Row) bool {
			n, pos = min(n, r.N-1), r.Position-1
			return false
		})
		switch {
		case ctx.Err() != nil:
			return false
		case timed.Err() != nil:
			x.fault = tooLong()
			return false
		case err != nil:
			x.hub.log.Error("the journal could not be searched", "instrument", a.series.Instrument, "error", err)
			x.fault = wire.NewFault(wire.Internal, "")
			return false
		}
		x.point[a.key], x.place[a.key] = n, pos
		if x.ask = x.ask[1:]; time.Since(begin) >= limit {
			return len(x.ask) > 0
		}
	}
	return false
}

func tooLong() *wire.Fault {
	return wire.NewFault(wire.RangeTooLarge, "The start takes too long to find; begin later, or with fewer instruments")
}

// searchNext continues the oldest search. It returns false if there is none.
func (h *Hub) searchNext(ctx context.Context) bool {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	x, late := h.nextSearch(stop)
	for _, y := range late {
		y.found()
	}
	if x == nil {
		return len(late) > 0
	}
	more := x.read(ctx, oldTime)
	h.mu.Lock()
	x.stop = nil
	switch {
	case x.gone:
		h.mu.Unlock()
		return true
	case ctx.Err() != nil: // the hub ends
		x.fault = wire.NewFault(wire.Internal, "")
	case more:
		h.searches = append(h.searches, x) // other searches come first
		h.mu.Unlock()
		return true
	}
	x.over = true
	h.mu.Unlock()
	x.found()
	return true
}

// nextSearch returns the oldest search, and the searches whose time is over. The hub calls stop if
// the oldest search is given up.
func (h *Hub) nextSearch(stop context.CancelFunc) (x *Search, late []*Search) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock()
	h.searches = slices.DeleteFunc(h.searches, func(y *Search) bool {
		if y.until > now {
			return false
		}
		y.fault, y.over = tooLong(), true
		late = append(late, y)
		return true
	})
	if len(h.searches) == 0 {
		return nil, late
	}
	x = h.searches[0]
	x.stop = stop
	h.searches[0] = nil
	if h.searches = h.searches[1:]; len(h.searches) > 0 {
		h.callReader() // another one
	}
	return x, late
}

// before returns the position before the first row of a replay, or 0 if it is not known.
func (x *Search) before(in *instrument, c wire.Channel) uint64 {
	if x == nil {
		return 0
	}
	return x.place[pointKey{in, c}]
}
