package stream

import (
	"slices"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// The statuses of a market as a whole concern whoever has anything of that market:
// that its feed is down, and with a status subscription its phases.

// markets are those that a set touches, without repeats, in the order of arrival.
func (s *Subscriber) markets() []string {
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
		if !slices.Contains(before, m) {
			s.dueVenue(m, true)
		}
	}
}

// dueVenue makes how a market as a whole stands due.
func (s *Subscriber) dueVenue(m string, fresh bool) {
	w := s.waiting()
	for i := range w.venues {
		if w.venues[i].market == m || w.venues[i].market == market.Any {
			w.venues[i].fresh = w.venues[i].fresh || fresh
			return
		}
	}
	w.venues = append(w.venues, venueDue{m, fresh})
}

// concerns says whether a market-wide status is for this subscriber.
func (s *Subscriber) concerns(rec *record) bool {
	m := rec.in.id.Market
	if s.wait != nil {
		for _, v := range s.wait.venues {
			if v.fresh && (v.market == m || v.market == market.Any) {
				return false // the state that is due tells it
			}
		}
	}
	for _, it := range s.items {
		if in := it.id().Market; in == m || in == market.Any {
			return rec.flag&notice != 0 || s.followsStatus(m)
		}
	}
	return false
}

// followsStatus says whether the set has status of a market, which market-wide statuses come with.
func (s *Subscriber) followsStatus(m string) bool {
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
	h := s.shard.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commit()
	s.shard.passVenues()
	dst = w.takeCarry(dst)
	for _, due := range w.venues {
		for _, v := range h.venuesOf(due.market) {
			dst = s.appendVenue(dst, v)
		}
	}
	w.venues = nil
	return dst
}

// venuesOf is a market as a whole, or all of them in the order of definition.
func (h *Hub) venuesOf(name string) []*instrument {
	if name != market.Any {
		if v := h.venues[name]; v != nil {
			return []*instrument{v}
		}
		return nil
	}
	var list []*instrument
	for _, v := range h.venues {
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b *instrument) int { return int(a.handle) - int(b.handle) })
	return list
}

// appendVenue appends how a market as a whole stands: that its feed is down, to
// everybody, and its phase, where its status is subscribed.
func (s *Subscriber) appendVenue(dst []byte, in *instrument) []byte {
	h := s.shard.hub
	if in.phase != market.NoPhase && s.followsStatus(in.id.Market) {
		dst = h.appendStatus(dst, in, in.phase, in.reason, in.until)
	}
	if in.down {
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
	h := s.shard.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commit()
	s.shard.passVenues()
	w.venues = slices.DeleteFunc(w.venues, func(due venueDue) bool {
		list := h.venuesOf(due.market)
		kept := func(v *instrument) bool { return v.statuses.Dropped <= since && s.followsStatus(v.id.Market) }
		if !due.fresh || len(list) == 0 || slices.ContainsFunc(list, func(v *instrument) bool { return !kept(v) }) {
			return false
		}
		for _, v := range list {
			n := max(v.statuses.Seek(since), v.statuses.First()-1)
			for _, rows := range v.statuses.After(n) {
				for i := range rows {
					n++
					h.scratch.payload = rows[i].Message(h.scratch.payload[:0], v.ident, n)
					dst = wire.AppendText(dst, h.scratch.payload)
				}
			}
		}
		return true
	})
	return dst
}
