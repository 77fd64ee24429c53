package session

import (
	"slices"
	"strconv"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/entitlement"
	"github.com/ruedahq/rueda/internal/stream"
	"github.com/ruedahq/rueda/wire"
)

// grant sets what the user may do, and brings the subscriptions in line with it.
func (s *Session) grant(now time.Time, g *Grants) {
	s.grants = g
	s.limit(s.env.limits(g.Limits))
	s.reconsider(now)
}

// regrant is grant for an open connection, which is one too many where the limit was lowered.
func (s *Session) regrant(now time.Time, g *Grants) {
	if most := s.env.limits(g.Limits).Connections; s.known && s.env.Registry.before(&s.place) >= most {
		s.fail(&wire.Fault{Reason: wire.ConnectionLimit, RetryAfter: retryAfterLimit}, nil, nil)
		return
	}
	s.grant(now, g)
}

// rightsLook is how long a session waits at most until it looks at rights that begin or end.
const rightsLook = 24 * time.Hour

// watchRights notes when rights begin or end. That is a time of the wall clock, which may be set: so it
// is looked at anew at every Tick.
func (s *Session) watchRights(now time.Time) {
	next := s.grants.Rights.Next(now)
	if next.IsZero() {
		if s.aside != nil {
			s.aside.rightsAt, s.aside.rightsDue = next, 0
		}
		return
	}
	a := s.put()
	a.rightsAt, a.rightsDue = next, s.at(now).add(max(1, min(next.Sub(now), rightsLook)))
}

// reconsider takes out of the subscriptions what is not allowed now, and moves to another delay what is to be
// had at that alone, or already.
func (s *Session) reconsider(now time.Time) {
	s.watchRights(now)
	var gone, moved []stream.Item
	var removed, moves []told
	quota, kept := s.quota(now), 0
	for x := range s.sub.All {
		delay, reason, _ := s.authorize(quota, x)
		if reason == "" && !s.sub.Serves(delay) {
			reason = wire.NotEntitled
		}
		if reason == "" && kept == int(s.maxItems) {
			reason = wire.SubscriptionLimit
		}
		switch {
		case reason != "":
			gone = append(gone, x)
			removed = append(removed, told{x, reason})
			continue
		case delay != x.Tier.Delay:
			x.Tier.Delay = delay
			moved = append(moved, x)
			moves = append(moves, told{x, ""})
		}
		kept++
	}
	if len(gone)+len(moved) == 0 {
		return
	}
	var buf [8]Use
	before := s.uses(buf[:0])
	ack := wire.Subscription{Msg: "Rights changed"}
	for c, lost := range s.sub.Change(gone, moved) {
		ack.Lost[c] = ranges(lost)
	}
	s.countUses(before)
	s.tellChange(&ack, removed, moves)
}

// told is an item of which a client is told that it went, or moved.
type told struct {
	item   stream.Item
	reason wire.Reason
}

// tellChange tells what became of the subscriptions, by channel.
func (s *Session) tellChange(ack *wire.Subscription, removed, moves []told) {
	byChannel := func(a, b told) int { return int(a.item.Channel) - int(b.item.Channel) }
	slices.SortStableFunc(removed, byChannel)
	slices.SortStableFunc(moves, byChannel)
	for _, r := range removed {
		ack.Given[r.item.Channel] = true
		ack.Removed = append(ack.Removed, wire.Rejection{Channel: r.item.Channel.String(), Instrument: written(r.item), Reason: r.reason})
	}
	for _, m := range moves {
		ack.Given[m.item.Channel] = true
		ack.Moved = append(ack.Moved, wire.Moved{Channel: m.item.Channel.String(), Instrument: written(m.item), Delay: m.item.Tier.Delay})
	}
	for c := range wire.NumChannels {
		if ack.Given[c] {
			ack.Lists[c] = identifiers(s.sub.List(c))
		}
	}
	s.acknowledge(ack)
}

func (s *Session) limit(l broker.Limits) {
	s.maxItems, s.perSecond = uint32(max(1, l.Subscriptions)), uint32(max(1, l.MessagesPerSecond))
}

// written is an identifier as the server writes it: one of bars has its interval behind it.
func written(x stream.Item) string { return string(x.Channel.Append(nil, x.ID)) }

func identifiers(items []stream.Item) []string {
	list := make([]string, len(items))
	for i := range items {
		list[i] = written(items[i])
	}
	return list
}

// may reports whether the user has a scope.
func (s *Session) may(scope string) bool {
	return s.grants != nil && slices.Contains(s.grants.Scopes, scope)
}

// quota returns the instrument quota of the user's rights, none of it used.
func (s *Session) quota(now time.Time) *entitlement.Quota {
	var rights entitlement.Set
	if s.grants != nil {
		rights = s.grants.Rights
	}
	return rights.Quota(now)
}

// usedQuota returns the instrument quota with the present subscriptions counted, each at its delay.
func (s *Session) usedQuota(now time.Time) *entitlement.Quota {
	q := s.quota(now)
	if s.grants == nil || !s.grants.Rights.Limited() {
		return q
	}
	for x := range s.sub.All {
		if m := q.Find(x.ID, x.Channel, x.Tier.Depth, x.Tier.Delay); m.Right != nil {
			q.Use(m.Right, x.ID)
		}
	}
	return q
}

// authorize returns the delay of an item in seconds and counts its instrument, or the reason why the
// user may not have it: Forbidden without the scope or if the server does not offer it, NotEntitled
// without a right to the data, SubscriptionLimit if the right has no quota left.
func (s *Session) authorize(quota *entitlement.Quota, x stream.Item) (delay int, reason wire.Reason, hint string) {
	book := x.Channel == wire.OrderBook
	if !s.may(broker.ScopeRead) {
		return 0, wire.Forbidden, "Needs the scope " + broker.ScopeRead
	}
	if x.ID.IsPattern() {
		if !s.may(broker.ScopeWildcard) {
			return 0, wire.Forbidden, "Needs the scope " + broker.ScopeWildcard + "; name instruments one by one"
		}
		if book && !s.env.BookWildcards {
			return 0, wire.Forbidden, "Order books are not served by pattern; name instruments one by one"
		}
	}
	m := quota.Find(x.ID, x.Channel, x.Tier.Depth, entitlement.AnyDelay)
	switch {
	case m.Right == nil && m.Full != nil:
		return 0, wire.SubscriptionLimit, quotaHint(m.Full.Instruments, x)
	case m.Right == nil && book && m.Deepest != 0:
		return 0, wire.NotEntitled, "Order books up to depth " + strconv.Itoa(m.Deepest)
	case m.Right == nil:
		return 0, wire.NotEntitled, ""
	case book && !s.may(broker.ScopeDepth):
		return 0, wire.Forbidden, "Needs the scope " + broker.ScopeDepth
	}
	quota.Use(m.Right, x.ID)
	return m.Right.Delay, "", ""
}

// quotaHint returns a hint that names the limit of instruments of a right.
func quotaHint(limit int, x stream.Item) string {
	hint := "Your right to " + x.ID.Market + " is to " + strconv.Itoa(limit) + " instruments at a time"
	if x.ID.IsPattern() {
		hint += "; name them one by one"
	}
	return hint
}

// maxDepth returns the deepest order book that an identity may subscribe to in any market, in the
// form of Success: 0 for all levels, -1 for none.
func maxDepth(id *Identity, now time.Time) int {
	deepest := id.Rights.Deepest(now)
	switch {
	case deepest == 0 || !slices.Contains(id.Scopes, broker.ScopeDepth):
		return -1
	case deepest < 0:
		return 0
	}
	return deepest
}
