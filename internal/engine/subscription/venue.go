package subscription

import (
	"slices"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/ring"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// The statuses of a market as a whole go to all subscribers of that market. Each of them receives
// the statuses of the feed. Subscribers of the channel of statuses also receive the phases of the
// market.

// markets returns the markets of a set, each once, in the order in which they were added.
func (s *itemSet) markets() []string {
	var list []string
	last := ""
	for _, it := range s.items {
		if m := it.id().Market; m != last && !slices.Contains(list, m) {
			list, last = append(list, m), m
		}
	}
	return list
}

// followVenues makes the status of each market due that is new to the set.
func (s *Subscriber) followVenues(before []string) {
	if slices.Contains(before, market.Any) {
		return
	}
	for _, m := range s.markets() {
		s.dueVenues(m, true, func(name string) bool { return slices.Contains(before, name) })
	}
}

// dueVenues makes the status of a market due, or of all markets if m is market.Any. It leaves out
// markets for which skip returns true. The hub's lock is held.
func (s *Subscriber) dueVenues(m string, fresh bool, skip func(name string) bool) {
	for _, v := range s.shard.hub.VenuesOf(m) {
		if name := v.ID().Market; !skip(name) {
			s.waiting().dueVenue(name, fresh)
		}
	}
}

// dueVenue makes the status of a market due.
func (w *wait) dueVenue(m string, fresh bool) {
	for i := range w.venues {
		if w.venues[i].market == m {
			w.venues[i].fresh = w.venues[i].fresh || fresh
			return
		}
	}
	w.venues = append(w.venues, venueDue{market: m, fresh: fresh})
}

// bareVenues removes the phases of new markets of the set from the due statuses, for a subscription
// without snapshots. A status that the feed is down is still sent. Statuses that are published
// meanwhile are sent as usual, unless a resume sends them.
func (t *taking) bareVenues(before []string) {
	for i := range t.waiting().venues {
		if v := &t.wait.venues[i]; !slices.Contains(before, v.market) {
			v.fresh, v.bare = t.since.epoch == t.shard.hub.Epoch(), true
		}
	}
}

// statedMarkets returns the markets of status items that were added with snapshots.
func (s *itemSet) statedMarkets() []string {
	var list []string
	for _, it := range s.items {
		if m := it.id().Market; it.channel() == wire.Status && it.flag&bare == 0 && !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	return list
}

// takeStatus makes the status of the markets of a new status item due, unless the client has
// received it.
func (t *taking) takeStatus(m string) {
	t.dueVenues(m, false, func(name string) bool {
		return slices.Contains(t.stated, name) || slices.Contains(t.stated, market.Any)
	})
	if !slices.Contains(t.stated, m) {
		t.stated = append(t.stated, m)
	}
}

// statusMarkets returns the markets of status items.
func (s *itemSet) statusMarkets() []string {
	var list []string
	for _, it := range s.items {
		if m := it.id().Market; it.channel() == wire.Status && !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	return list
}

// concerns reports whether the subscriber receives a status of a market.
func (s *Subscriber) concerns(rec *hub.Record) bool {
	m := rec.Of.ID().Market
	if s.wait != nil {
		for _, v := range s.wait.venues {
			if v.fresh && v.market == m {
				// The status that is due contains it, unless it is a gap.
				return rec.Flag&ring.Lost != 0 && s.wait.since == nil
			}
		}
	}
	if t := s.changing(); t != nil {
		return t.received(m, rec.Flag&ring.Notice != 0)
	}
	for _, it := range s.items {
		if in := it.id().Market; in == m || in == market.Any {
			return rec.Flag&ring.Notice != 0 || s.followsStatus(m)
		}
	}
	return false
}

// followsStatus reports whether the set has a status item of a market.
func (s *itemSet) followsStatus(m string) bool {
	for _, it := range s.items {
		if it.channel() == wire.Status && (it.id().Market == m || it.id().Market == market.Any) {
			return true
		}
	}
	return false
}

// gatherVenues appends the due statuses of markets.
func (s *Subscriber) gatherVenues(dst []byte) []byte {
	w := s.wait
	if len(w.venues) == 0 {
		return dst
	}
	states, whole := s.venueStates()
	s.shard.passVenues() // the statuses that were published before
	dst = append(w.takeCarry(dst), states...)
	if whole {
		w.venues = nil
	}
	return dst
}

// venueStates returns the due statuses of markets. If one of them is not committed, all of them
// wait, and whole is false.
func (s *Subscriber) venueStates() (states []byte, whole bool) {
	h := s.shard.hub
	h.Lock()
	defer h.Unlock()
	h.Commit()
	s.shard.takeVenues()
	for _, due := range s.wait.venues {
		if h.Uncommitted(h.VenuesOf(due.market)) {
			s.awaitVenues()
			return nil, false
		}
	}
	for _, due := range s.wait.venues {
		for _, v := range h.VenuesOf(due.market) {
			states = s.appendVenue(states, v, due.bare)
		}
	}
	return states, true
}

// appendVenue appends the status of a market. It appends the phase if the set has a status item of
// the market and bare is false. It appends FeedDown if the feed is down.
func (s *Subscriber) appendVenue(dst []byte, in *hub.Instrument, bare bool) []byte {
	h := s.shard.hub
	if !bare && in.Phase != market.NoPhase && s.followsStatus(in.ID().Market) {
		dst = h.AppendStatus(dst, in, in.Phase, in.Reason, in.Until)
	}
	if in.Down || hub.IsCutOff(h) {
		dst = hub.AppendDown(dst, h, in)
	}
	return dst
}

// replayVenues appends the statuses of markets since the position of a resume, if all of them are
// in memory. For other markets, the present status stays due.
func (s *Subscriber) replayVenues(dst []byte) []byte {
	w := s.wait
	if w == nil || w.since == nil {
		return dst
	}
	since := *w.since
	w.since = nil
	left, dst := s.venueRows(dst, since)
	s.shard.passVenues() // before venues changes, so that what the rows contain is not sent again
	w.venues = left
	return dst
}

// venueRows appends the rows for replayVenues, and returns the markets whose status stays due.
func (s *Subscriber) venueRows(dst []byte, since uint64) ([]venueDue, []byte) {
	h := s.shard.hub
	var payload []byte
	h.Lock()
	defer h.Unlock()
	h.Commit()
	s.shard.takeVenues()
	left := slices.DeleteFunc(slices.Clone(s.wait.venues), func(due venueDue) bool {
		list := h.VenuesOf(due.market)
		kept := func(v *hub.Instrument) bool { return v.Statuses.Dropped <= since && s.followsStatus(v.ID().Market) }
		if !due.fresh || len(list) == 0 || hub.IsCutOff(h) || slices.ContainsFunc(list, func(v *hub.Instrument) bool { return !kept(v) }) {
			return false
		}
		for _, v := range list {
			n := max(v.Statuses.Seek(since), v.Statuses.First()-1)
			for _, rows := range v.Statuses.After(n) {
				for i := range rows {
					if rows[i].Pos > h.Committed() {
						break // the row is in the ring
					}
					n++
					payload = rows[i].Message(payload[:0], v.Ident, n)
					dst = wire.AppendText(dst, payload)
				}
			}
		}
		return true
	})
	return left, dst
}

// takeVenues notes the present tail of the market-wide statuses. The hub's lock is held.
func (s *Shard) takeVenues() {
	if v := s.venue; v != nil {
		v.tail, v.pos = v.topic.Tail(), s.hub.Committed()
	}
}

// passVenues gives the market-wide statuses before the noted tail to all subscribers that they
// concern. These statuses are rare, so subscribers have no cursors for them. It needs no lock.
func (s *Shard) passVenues() {
	v := s.venue
	if v == nil {
		return
	}
	for ; ; v.prev.Next() {
		rec, frame, ok := v.prev.Peek(v.tail)
		if !ok {
			return
		}
		for _, sub := range s.subs {
			if sub.concerns(rec) {
				w := sub.waiting()
				w.carry = append(w.carry, frame...)
				s.news = append(s.news, sub)
			}
		}
	}
}
