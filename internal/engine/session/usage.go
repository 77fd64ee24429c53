package session

import (
	"slices"

	"github.com/ruedahq/rueda/internal/engine/entitlement"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/wire"
)

// Use is a level of a market's data that a session uses.
type Use struct {
	Market string       // "*" for a pattern of every market
	Level  wire.Channel // Trades, Quotes or OrderBook
	Delay  int          // seconds
}

// uses appends what subscriptions use, without duplicates.
func (e *Env) uses(sub *subscription.Subscriber, list []Use) []Use {
	if e.Used == nil {
		return list
	}
	for x := range sub.All {
		u := Use{Market: x.ID.Market, Level: entitlement.Level(x.Channel), Delay: x.Tier.Delay}
		if !slices.Contains(list, u) {
			list = append(list, u)
		}
	}
	return list
}

// countUses records the uses that have begun and those that have ended since before.
func (s *Session) countUses(before []Use) {
	if s.env.Used == nil || s.entry.identity == nil {
		return
	}
	var buf [8]Use
	now := s.env.uses(&s.sub, buf[:0])
	record := func(list, other []Use, by int) {
		for _, u := range list {
			if !slices.Contains(other, u) {
				s.env.Used(s.entry.user(), u, by)
			}
		}
	}
	record(now, before, 1)
	record(before, now, -1)
}

// noteUses stores the uses of the session before a message changes the set. If the session ends
// before countUses, these are the uses that end with it.
func (r *request) noteUses() {
	r.used = r.env.uses(&r.sub, nil)
	if r.pieces != nil {
		r.pieces.changing = true
	}
}

// countUses records the uses that the message has begun and ended.
func (r *request) countUses() {
	r.Session.countUses(r.used)
	if r.pieces != nil {
		r.pieces.changing = false
	}
}

// recorded appends the uses of the session that the meter has counted. While a message in pieces
// changes the subscriptions, these are the uses from before that message.
func (s *Session) recorded(list []Use) []Use {
	if p := s.inProgress(); p != nil && p.changing {
		return append(list, p.request.used...)
	}
	return s.env.uses(&s.sub, list)
}

// recordDenied records the items that were refused because of a missing right or scope.
func (r *request) recordDenied(list []wanted) {
	if r.env.Denied == nil {
		return
	}
	for i := range list {
		if w := &list[i]; w.reason == wire.NotEntitled || w.reason == wire.Forbidden {
			r.env.Denied(r.entry.user(), w.item.ID.Market, entitlement.Level(w.item.Channel), w.reason)
		}
	}
}
