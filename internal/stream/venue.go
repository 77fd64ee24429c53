package stream

import (
	"slices"

	"github.com/ruedahq/rueda/internal/ring"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// The statuses of a market as a whole concern whoever has anything of that market:
// that its feed is down, and with a status subscription its phases.

// markets are those that a set touches, without repeats, in the order of arrival.
func (s *itemSet) markets() []string {
	var list []string
	for _, it := range s.items {
		if m := it.id().Market; !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	return list
}

// followVenues makes due how the markets stand that are new to the set.
func (s *Subscriber) followVenues(before []string) {
	if slices.Contains(before, market.Any) {
		return
	}
	for _, m := range s.markets() {
		s.dueVenues(m, true, func(name string) bool { return slices.Contains(before, name) })
	}
}

// dueVenues makes due how a market as a whole stands, or how all of them do, but for those to skip.
// The hub's lock is held.
func (s *Subscriber) dueVenues(m string, fresh bool, skip func(name string) bool) {
	for _, v := range s.shard.hub.venuesOf(m) {
		if name := v.id.Market; !skip(name) {
			s.waiting().dueVenue(name, fresh)
		}
	}
}

// dueVenue makes how a market as a whole stands due.
func (w *wait) dueVenue(m string, fresh bool) {
	for i := range w.venues {
		if w.venues[i].market == m {
			w.venues[i].fresh = w.venues[i].fresh || fresh
			return
		}
	}
	w.venues = append(w.venues, venueDue{market: m, fresh: fresh})
}

// bareVenues takes the phase out of what is due of markets that are new to the set, for a
// subscription without snapshots: that a feed is down is still sent. What is published meanwhile
// is sent as it is, unless a resume sends it again.
func (t *taking) bareVenues(before []string) {
	for i := range t.waiting().venues {
		if v := &t.wait.venues[i]; !slices.Contains(before, v.market) {
			v.fresh, v.bare = t.since.epoch == t.shard.hub.epoch, true
		}
	}
}

// statedMarkets are the markets of status items that began with how those stand as a whole.
func (s *itemSet) statedMarkets() []string {
	var list []string
	for _, it := range s.items {
		if m := it.id().Market; it.channel() == wire.Status && it.flag&bare == 0 && !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	return list
}

// takeStatus makes due how the markets of a new status item stand, where the client was not told yet.
func (t *taking) takeStatus(m string) {
	t.dueVenues(m, false, func(name string) bool {
		return slices.Contains(t.stated, name) || slices.Contains(t.stated, market.Any)
	})
	if !slices.Contains(t.stated, m) {
		t.stated = append(t.stated, m)
	}
}

// concerns says whether a market-wide status is for this subscriber.
func (s *Subscriber) concerns(rec *record) bool {
	m := rec.Of.id.Market
	if s.wait != nil {
		for _, v := range s.wait.venues {
			if v.fresh && v.market == m {
				// The state that is due tells it, but for a gap, which no state tells.
				return rec.Flag&ring.Lost != 0 && s.wait.since == nil
			}
		}
	}
	for _, it := range s.items {
		if in := it.id().Market; in == m || in == market.Any {
			return rec.Flag&ring.Notice != 0 || s.followsStatus(m)
		}
	}
	return false
}

// followsStatus says whether the set has status of a market, which market-wide statuses come with.
func (s *itemSet) followsStatus(m string) bool {
	for _, it := range s.items {
		if it.channel() == wire.Status && (it.id().Market == m || it.id().Market == market.Any) {
			return true
		}
	}
	return false
}

// gatherVenues appends how the markets stand that are due.
func (s *Subscriber) gatherVenues(dst []byte) []byte {
	w := s.wait
	if len(w.venues) == 0 {
		return dst
	}
	states, whole := s.venueStates()
	s.shard.passVenues() // what was told before
	dst = append(w.takeCarry(dst), states...)
	if whole {
		w.venues = nil
	}
	return dst
}

// venueStates is how the markets stand that are due, and notes how far that goes. Where that is not
// committed yet, they wait: whole is false.
func (s *Subscriber) venueStates() (states []byte, whole bool) {
	h := s.shard.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commit()
	s.shard.takeVenues()
	for _, due := range s.wait.venues {
		if h.uncommitted(h.venuesOf(due.market)) {
			s.awaitVenues()
			return nil, false
		}
	}
	for _, due := range s.wait.venues {
		for _, v := range h.venuesOf(due.market) {
			states = s.appendVenue(states, v, due.bare)
		}
	}
	return states, true
}

// appendVenue appends how a market as a whole stands: that its feed is down, to
// everybody, and its phase, where its status is subscribed and not bare.
func (s *Subscriber) appendVenue(dst []byte, in *instrument, bare bool) []byte {
	h := s.shard.hub
	if !bare && in.Phase != market.NoPhase && s.followsStatus(in.id.Market) {
		dst = h.appendStatus(dst, in, in.Phase, in.Reason, in.Until)
	}
	if in.Down {
		dst = h.appendStatus(dst, in, market.FeedDown, "", 0)
	}
	return dst
}

// replayVenues appends what markets as a whole told since the position of a resume, where that is
// kept; of the others the state is still due.
func (s *Subscriber) replayVenues(dst []byte) []byte {
	w := s.wait
	if w == nil || w.since == nil {
		return dst
	}
	since := *w.since
	w.since = nil
	left, dst := s.venueRows(dst, since)
	s.shard.passVenues() // while what is due says what the rows have told
	w.venues = left
	return dst
}

// venueRows appends the rows of replayVenues, and returns the markets whose state is still due.
func (s *Subscriber) venueRows(dst []byte, since uint64) ([]venueDue, []byte) {
	h := s.shard.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commit()
	s.shard.takeVenues()
	left := slices.DeleteFunc(slices.Clone(s.wait.venues), func(due venueDue) bool {
		list := h.venuesOf(due.market)
		kept := func(v *instrument) bool { return v.Statuses.Dropped <= since && s.followsStatus(v.id.Market) }
		if !due.fresh || len(list) == 0 || slices.ContainsFunc(list, func(v *instrument) bool { return !kept(v) }) {
			return false
		}
		for _, v := range list {
			n := max(v.Statuses.Seek(since), v.Statuses.First()-1)
			for _, rows := range v.Statuses.After(n) {
				for i := range rows {
					if rows[i].Pos > h.committed {
						break // the ring tells it
					}
					n++
					h.scratch.payload = rows[i].Message(h.scratch.payload[:0], v.Ident, n)
					dst = wire.AppendText(dst, h.scratch.payload)
				}
			}
		}
		return true
	})
	return left, dst
}
