package session

import (
	"strconv"
	"time"

	"github.com/ruedahq/rueda/internal/stream"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// seats are a user's rights at a moment, and the instruments that those with a limit are used for. Each
// item of a set is had by one right: the one that gives the data soonest and has a seat left. An instrument has one
// seat, however many channels of it are subscribed.
type seats struct {
	rights Rights
	now    time.Time
	taken  []map[market.InstrumentID]struct{} // by right; nil where none has a limit
}

// seats begins with nobody seated.
func (s *Session) seats(now time.Time) *seats {
	t := &seats{now: now}
	if s.grants != nil {
		t.rights = s.grants.Rights
	}
	if t.rights.limited() {
		t.taken = make([]map[market.InstrumentID]struct{}, len(t.rights))
	}
	return t
}

// seated is seats with the present set in them: each item at the delay that it has.
func (s *Session) seated(now time.Time) *seats {
	t := s.seats(now)
	if t.taken == nil {
		return t
	}
	for x := range s.sub.All {
		if i, _, _ := t.find(x, x.Tier.Delay); i >= 0 {
			t.take(i, x.ID)
		}
	}
	return t
}

// free says whether a right has a seat for an identifier. A pattern never has one: nobody knows how many instruments
// it will cover.
func (t *seats) free(i int, id market.InstrumentID) bool {
	most := t.rights[i].Instruments
	if most == 0 {
		return true
	}
	if id.IsPattern() {
		return false
	}
	_, has := t.taken[i][id]
	return has || len(t.taken[i]) < most
}

func (t *seats) take(i int, id market.InstrumentID) {
	if t.rights[i].Instruments == 0 {
		return
	}
	if t.taken[i] == nil {
		t.taken[i] = make(map[market.InstrumentID]struct{})
	}
	t.taken[i][id] = struct{}{}
}

// anyDelay is what find takes for the shortest.
const anyDelay = -1

// find is the right by which an item is had: -1 where there is none, and then full is one that grants it and has
// no seat left, or -1. deepest is the deepest book of its market (0: none, -1: all levels). A pattern for every
// market needs a right to every market, also to those which are yet to be listed.
func (t *seats) find(x stream.Item, delay int) (right, full, deepest int) {
	right, full = -1, -1
	for i := range t.rights {
		g := &t.rights[i]
		if g.Market != market.Any && g.Market != x.ID.Market || !g.holds(t.now) {
			continue
		}
		if x.Channel == wire.OrderBook {
			deepest = deeper(deepest, g.Depth)
		}
		switch {
		case !g.grants(x) || delay != anyDelay && g.Delay != delay:
		case !t.free(i, x.ID):
			full = i
		case right < 0 || g.Delay < t.rights[right].Delay || g.Delay == t.rights[right].Delay && g.Instruments == 0:
			right = i // of two as soon, the one without a limit
		}
	}
	return right, full, deepest
}

// grants says whether a right to a market is one to a channel and depth.
func (r *Right) grants(x stream.Item) bool {
	switch x.Channel {
	case wire.Quotes:
		return r.Quotes
	case wire.Status:
		return r.Trades || r.Quotes || r.Depth != 0
	case wire.OrderBook:
		return r.Depth < 0 || x.Tier.Depth > 0 && x.Tier.Depth <= r.Depth
	}
	return r.Trades // trades, and what is made of them
}

// deeper is the deeper of two depths, of which -1 is all levels.
func deeper(a, b int) int {
	if a < 0 || b < 0 {
		return -1
	}
	return max(a, b)
}

// fullHint says how many instruments a right is to.
func (t *seats) fullHint(i int, x stream.Item) string {
	hint := "Your right to " + x.ID.Market + " is to " + strconv.Itoa(t.rights[i].Instruments) + " instruments at a time"
	if x.ID.IsPattern() {
		hint += "; name them one by one"
	}
	return hint
}
