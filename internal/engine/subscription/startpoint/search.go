package startpoint

import (
	"context"
	"errors"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/readjob"
	"github.com/ruedahq/rueda/wire"
)

// The goroutines that read old rows of the journal work on one search for some milliseconds at a
// time. The caller of Find calls it again when the search has ended.

const (
	searchTime = 2 * time.Second  // reading time for one message
	searchWait = 10 * time.Second // longest time until the message is answered; later messages of the client wait
)

// Search finds the points of a start in the journal, or waits for replicas.
type Search struct {
	hub    *hub.Port
	ask    []missing           // sequences that are not searched yet
	point  map[Sequence]uint64 // N of the last row before the start; nil: it waits for replicas
	place  map[Sequence]uint64 // the position before the next row
	used   time.Duration       // reading time, also of the searches before this one
	before time.Duration       // reading time of those
	until  time.Time           // when the search fails
	fault  *wire.Fault         // why it failed
	wait   *readjob.Wait
	ahead  bool // it has waited for rows of the client, or one before it has
}

// missing is a sequence whose point is not in memory.
type missing struct {
	key    Sequence
	series journal.Series
	from   int64
	first  uint64 // N of the oldest row in memory
}

// Await returns a Search that finds no points, and ends with w.
func Await(w *readjob.Wait) *Search { return &Search{wait: w} }

// Over reports whether the search has ended.
func (x *Search) Over() bool { return x.wait.Over() }

// Stop gives up the search if it has not ended.
func (x *Search) Stop() { x.wait.Stop() }

// fill adds the points that were found, and returns the sequences without a point. A nil Search has
// no points.
func (x *Search) fill(points map[Sequence]uint64, ask []missing) (left []missing) {
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
func (x *Search) next(h *hub.Port, ask []missing) *Search {
	y := &Search{hub: h, ask: ask, until: time.Now().Add(searchWait), point: map[Sequence]uint64{}, place: map[Sequence]uint64{}}
	if x != nil {
		y.point, y.place, y.until, y.used, y.before, y.ahead = x.point, x.place, x.until, x.used, x.used, x.ahead
	}
	return y
}

// begin passes a search to the goroutines that read the journal. It returns false if there are
// none, or if nobody is called when it has ended.
func (x *Search) begin(found func()) bool {
	jobs := x.hub.Jobs()
	if found == nil || !jobs.Served() {
		return false
	}
	x.wait = readjob.NewWait(1, found)
	jobs.Submit(readjob.Search, &readjob.Job{
		Read:  func(ctx context.Context) (more bool) { return x.read(ctx, readjob.ReadTime) },
		End:   x.end,
		Until: x.until,
		Wait:  x.wait,
	})
	return true
}

// end records why the search has failed, if err is not nil.
func (x *Search) end(err error) {
	switch {
	case err == nil:
	case errors.Is(err, readjob.ErrLate):
		x.fault = tooLong()
	default:
		x.fault = wire.NewFault(wire.Internal, "")
	}
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
		err := x.hub.Journal().Read(timed, a.series, journal.Range{Epoch: x.hub.Epoch(), ToN: a.first, Start: a.from}, func(_ string, r *journal.Row) bool {
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
			x.hub.Log().Error("the journal could not be searched", "instrument", a.series.Instrument, "error", err)
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
