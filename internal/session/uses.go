package session

import (
	"slices"

	"github.com/ruedahq/rueda/wire"
)

// Use is what exchanges count: a level of a market's data, at once or late.
type Use struct {
	Market string // "*": by a pattern for every market
	Level  Level
	Delay  int // seconds
}

// Level is a level of market data, as rights are given.
type Level uint8

// Levels. What is made of trades is of the level of trades.
const (
	TradesLevel Level = iota
	QuotesLevel
	BookLevel
)

// String is the level's name: that of its channel.
func (l Level) String() string { return [...]string{"trades", "quotes", "order_book"}[l] }

func levelOf(c wire.Channel) Level {
	switch c {
	case wire.Quotes:
		return QuotesLevel
	case wire.OrderBook:
		return BookLevel
	}
	return TradesLevel
}

// uses appends what the subscriptions use, each once.
func (s *Session) uses(list []Use) []Use {
	if s.env.Used == nil {
		return list
	}
	for x := range s.sub.All {
		u := Use{Market: x.ID.Market, Level: levelOf(x.Channel), Delay: x.Tier.Delay}
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
			s.env.Denied(s.place.user(), w.item.ID.Market, levelOf(w.item.Channel), w.reason)
		}
	}
}
