package session

import (
	"slices"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/engine/entitlement"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/wire"
)

// setGrants sets what the user may do, and changes the subscriptions accordingly.
func (s *Session) setGrants(now time.Time, g *Grants) {
	s.grants = g
	s.reviewRights(now)
}

// changeGrants is setGrants for an open connection, which closes if the limit of connections was
// lowered below its number, or if its client is no longer in any of the user's networks.
func (s *Session) changeGrants(now time.Time, g *Grants) {
	if !g.Allows(s.Address()) {
		s.fail(wire.NewFault(wire.AddressNotAllowed, ""), nil, nil)
		return
	}
	if most := s.env.limits(g.Limits).Connections; s.Authenticated() && s.env.Registry.before(&s.entry) >= most {
		s.fail(&wire.Fault{Reason: wire.ConnectionLimit, RetryAfter: retryAfterLimit}, nil, nil)
		return
	}
	s.setGrants(now, g)
}

// maxRightsWait is the longest time until a session checks rights that begin or end.
const maxRightsWait = 24 * time.Hour

// watchRights sets when the next right begins or ends. That is a time of the wall clock, which may
// be adjusted, so that it is checked again at every timer event.
func (s *Session) watchRights(now time.Time) {
	next := s.grants.Rights.Next(now)
	if next.IsZero() {
		if s.optional != nil {
			s.rightsAt, s.rightsDue = next, 0
		}
		return
	}
	o := s.ext()
	o.rightsAt, o.rightsDue = next, s.env.at(now).add(max(1, min(next.Sub(now), maxRightsWait)))
}

// checkRights acts on rights that have begun or ended.
func (s *Session) checkRights(now time.Time) {
	switch o := s.optional; {
	case o == nil || o.rightsDue == 0:
	case now.Before(o.rightsAt):
		s.watchRights(now)
	default:
		s.afterPieces(now, func() { s.reviewRights(now) })
	}
}

// itemChange is an item that was removed for a reason, or moved to another delay.
type itemChange struct {
	item   hub.Item
	reason wire.Reason
}

// reviewRights removes the subscriptions that are not allowed now, and moves those whose delay has
// changed. While the data of that delay is being loaded, nothing of the stream is sent, and
// messages wait.
func (s *Session) reviewRights(now time.Time) {
	s.watchRights(now)
	if s.optional != nil {
		s.moving = nil
	}
	var gone, moved []hub.Item
	var removals, moves []itemChange
	quota, kept, most := s.grants.quota(now), 0, limitsOf(s).Subscriptions
	for x := range s.sub.All {
		delay, reason, _ := s.grants.authorize(quota, x, s.env.BookWildcards)
		if reason == "" && !s.sub.Serves(delay) {
			reason = wire.NotEntitled
		}
		if reason == "" && kept == most {
			reason = wire.SubscriptionLimit
		}
		switch {
		case reason != "":
			gone = append(gone, x)
			removals = append(removals, itemChange{x, reason})
			continue
		case delay != x.Tier.Delay:
			x.Tier.Delay = delay
			moved = append(moved, x)
			moves = append(moves, itemChange{x, ""})
		}
		kept++
	}
	if len(gone)+len(moved) == 0 {
		s.noteRights(now)
		return
	}
	if x := s.sub.Await(moved, s.postFound()); x != nil {
		s.ext().moving = x
		s.awaitMove()
		return
	}
	var buf [8]Use
	before := s.env.uses(&s.sub, buf[:0])
	ack := wire.Subscription{Msg: "Rights changed"}
	for c, lost := range s.sub.Change(gone, moved) {
		ack.Lost[c] = ranges(lost)
	}
	s.noteRights(now)
	s.countUses(before)
	s.sendChange(now, &ack, removals, moves)
}

// noteRights notes the rights for positions with several delays.
func (s *Session) noteRights(now time.Time) {
	s.sub.SetRights(s.grants.Rights.Hash(s.grants.Scopes, now))
}

// sendChange sends the changes of the subscriptions, by channel.
func (s *Session) sendChange(now time.Time, ack *wire.Subscription, removals, moves []itemChange) {
	byChannel := func(a, b itemChange) int { return int(a.item.Channel) - int(b.item.Channel) }
	slices.SortStableFunc(removals, byChannel)
	slices.SortStableFunc(moves, byChannel)
	for _, r := range removals {
		ack.Given[r.item.Channel] = true
		ack.Removed = append(ack.Removed, wire.Rejection{Channel: r.item.Channel.String(), Instrument: identifier(r.item), Reason: r.reason})
	}
	for _, m := range moves {
		ack.Given[m.item.Channel] = true
		ack.Moved = append(ack.Moved, wire.Moved{Channel: m.item.Channel.String(), Instrument: identifier(m.item), Delay: m.item.Tier.Delay})
	}
	for c := range wire.NumChannels {
		if ack.Given[c] {
			ack.Lists[c] = identifiers(s.sub.List(c))
		}
	}
	s.acknowledge(ack)
}

// useQuota counts the subscriptions of sub in an instrument quota, each at its delay.
func (g *Grants) useQuota(q *entitlement.Quota, sub *subscription.Subscriber) {
	if g == nil || !g.Rights.Limited() {
		return
	}
	for x := range sub.All {
		if m := q.Find(x.ID, x.Channel, x.Tier.Depth, x.Tier.Delay); m.Right != nil {
			q.Use(m.Right, x.ID)
		}
	}
}

// quota returns the instrument quota of the rights, with nothing used.
func (g *Grants) quota(now time.Time) *entitlement.Quota {
	var rights entitlement.Set
	if g != nil {
		rights = g.Rights
	}
	return rights.Quota(now)
}

// has reports whether the user has a scope.
func (g *Grants) has(scope string) bool { return g != nil && slices.Contains(g.Scopes, scope) }

// authorize returns the delay of an item in seconds and counts its instrument, or the reason why
// the user may not have it. It is Forbidden without the scope or if the server does not offer the
// item, NotEntitled without a right to the data, and SubscriptionLimit if the right has no quota
// left. bookWildcards allows patterns for order books.
func (g *Grants) authorize(quota *entitlement.Quota, x hub.Item, bookWildcards bool) (delay int, reason wire.Reason, hint string) {
	if x.Channel == wire.OrderBook && x.ID.IsPattern() && !bookWildcards && g.has(broker.ScopeRead) && g.has(broker.ScopeWildcard) {
		return 0, wire.Forbidden, "Order books are not served by pattern; name instruments one by one"
	}
	var scopes []string
	if g != nil {
		scopes = g.Scopes
	}
	v := quota.Evaluate(scopes, entitlement.Ask{ID: x.ID, Channel: x.Channel, Depth: x.Tier.Depth})
	return v.Delay, v.Reason, v.Hint
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
