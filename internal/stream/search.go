package stream

import (
	"context"
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/wire"
)

// Where the rows of a start are no longer in memory, its points are found by the goroutines that read old
// rows, some milliseconds of one search at a time. The subscribe is asked again when they have been found.

const (
	searchTime = 2 * time.Second  // of reading for one message
	searchWait = 10 * time.Second // until it is answered, with those that come before it
)

// Search finds the points of a start in the journal, for one subscribe.
type Search struct {
	hub   *Hub
	found func()              // is called once, when it has ended
	ask   []search            // what is left
	point map[pointKey]uint64 // N of the last row before the start
	place map[pointKey]uint64 // the position before the row that follows
	used  time.Duration       // reading
	until int64               // by the hub's clock: it has failed then
	fault *wire.Fault         // it has failed
	over  bool                // guarded by the hub's lock, as what follows
	stop  context.CancelFunc  // of the reading that is under way
	gone  bool                // given up
	left  int                 // replicas that are being loaded
}

// Over says whether the search has ended.
func (x *Search) Over() bool {
	x.hub.mu.Lock()
	defer x.hub.mu.Unlock()
	return x.over
}

// Stop gives the search up, if it has not ended: nobody reads for it any more.
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

// fill puts into points what was found, and returns what has yet to be. A nil Search has found nothing.
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

// next is a search for what one has not found, which knows what that one has found.
func (x *Search) next(h *Hub, ask []search, found func()) *Search {
	y := &Search{hub: h, found: found, ask: ask, until: h.clock() + int64(searchWait), point: map[pointKey]uint64{}, place: map[pointKey]uint64{}}
	if x != nil {
		y.point, y.place, y.until, y.used = x.point, x.place, x.until, x.used
	}
	return y
}

// begin hands a search to the readers; false: there are none, or nobody waits for it.
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

// read looks for the points that are left, for about a time. more says that some are left then.
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

// searchNext goes on with the search that has waited longest; false: there is none.
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
	case ctx.Err() != nil: // the hub's own ends
		x.fault = wire.NewFault(wire.Internal, "")
	case more:
		h.searches = append(h.searches, x) // behind the others
		h.mu.Unlock()
		return true
	}
	x.over = true
	h.mu.Unlock()
	x.found()
	return true
}

// nextSearch takes the next search, and those for which it is too late. stop ends its reading when it is
// given up.
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
		h.callReader() // another
	}
	return x, late
}

// before is the position before the first row of a replay.
func (x *Search) before(in *instrument, c wire.Channel) uint64 {
	if x == nil {
		return 0
	}
	return x.place[pointKey{in, c}]
}
