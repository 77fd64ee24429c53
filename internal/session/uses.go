package session

import (
	"slices"

	"github.com/ruedahq/rueda/internal/entitlement"
	"github.com/ruedahq/rueda/wire"
)

// Use is a level of a market's data that a session uses.
type Use struct {
	Market string       // "*" for a pattern for every market
	Level  wire.Channel // Trades, Quotes or OrderBook
	Delay  int          // seconds
}

// uses appends what the subscriptions use, each once.
func (s *Session) uses(list []Use) []Use {
	if s.env.Used == nil {
		return list
	}
	for x := range s.sub.All {
		u := Use{Market: x.ID.Market, Level: entitlement.Level(x.Channel), Delay: x.Tier.Delay}
		if !slices.Contains(list, u) {
			list = append(list, u)
		}
	}
	return list
}

// countUses tells what the subscriptions use now and did not before, and the other way round.
func (s *Session) countUses(before []Use) {
	if s.env.Used == nil || s.place.who == nil {
		return
	}
	var buf [8]Use
	now := s.uses(buf[:0])
	for _, u := range now {
		if !slices.Contains(before, u) {
			s.env.Used(s.place.user(), u, 1)
		}
	}
	for _, u := range before {
		if !slices.Contains(now, u) {
			s.env.Used(s.place.user(), u, -1)
		}
	}
}

// tellDenied tells what was asked for without a right to it.
func (s *Session) tellDenied(list []wanted) {
	if s.env.Denied == nil {
		return
	}
	for i := range list {
		if w := &list[i]; w.reason == wire.NotEntitled || w.reason == wire.Forbidden {
			s.env.Denied(s.place.user(), w.item.ID.Market, entitlement.Level(w.item.Channel), w.reason)
		}
	}
}
