package session

import (
	"slices"
	"strconv"

	"github.com/ruedahq/rueda/internal/stream"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// scope is the scopes that count here, as bits.
type scope uint8

const (
	mayRead scope = 1 << iota
	mayDepth
	mayWildcard
	mayAdmin
)

func scopesOf(names []string) scope {
	var has scope
	for _, name := range names {
		switch name {
		case scopeRead:
			has |= mayRead
		case scopeDepth:
			has |= mayDepth
		case scopeWildcard:
			has |= mayWildcard
		case scopeAdmin:
			has |= mayAdmin
		}
	}
	return has
}

// grant sets what the user may do, and takes out of the subscriptions what is no
// longer allowed.
func (s *Session) grant(g *Grants) {
	s.scopes, s.grants = scopesOf(g.Scopes), g
	s.limit(g.Limits.or(s.env.limits()))
	var gone []stream.Item
	told := wire.Subscription{Msg: "Rights changed"}
	for c := range wire.NumChannels {
		for _, x := range s.sub.List(c) {
			delay, reason, _ := s.may(x)
			if reason == "" && delay != x.Tier.Delay {
				reason = wire.NotEntitled // at this delay; subscribing again gives the other
			}
			if reason != "" {
				gone = append(gone, x)
				told.Given[c] = true
				told.Removed = append(told.Removed, wire.Rejection{Channel: c.String(), Instrument: written(x), Reason: reason})
			}
		}
	}
	if len(gone) == 0 {
		return
	}
	s.sub.Unsubscribe(gone)
	for c := range wire.NumChannels {
		if told.Given[c] {
			told.Lists[c] = identifiers(s.sub.List(c))
		}
	}
	s.acknowledge(&told)
}

func (s *Session) limit(l Limits) {
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

// may says why an item is not for this user: Forbidden where a scope lacks or the
// server does not do it, NotEntitled where a right to the market's data lacks; ""
// where it may be had, delay seconds late.
func (s *Session) may(x stream.Item) (delay int, reason wire.Reason, hint string) {
	book := x.Channel == wire.OrderBook
	if s.scopes&mayRead == 0 {
		return 0, wire.Forbidden, "Needs the scope " + scopeRead
	}
	if x.ID.IsPattern() {
		if s.scopes&mayWildcard == 0 {
			return 0, wire.Forbidden, "Needs the scope " + scopeWildcard + "; name instruments one by one"
		}
		if book && !s.env.BookWildcards {
			return 0, wire.Forbidden, "Order books are not served by pattern; name instruments one by one"
		}
	}
	delay, ok, deepest := s.grants.Rights.cover(x)
	if !ok {
		if book && deepest != 0 {
			return 0, wire.NotEntitled, "Order books up to depth " + strconv.Itoa(deepest)
		}
		return 0, wire.NotEntitled, ""
	}
	if book && s.scopes&mayDepth == 0 {
		return 0, wire.Forbidden, "Needs the scope " + scopeDepth
	}
	return delay, "", ""
}

// cover says whether the rights cover an item, how many seconds late, and the deepest
// book of its market (0: none, -1: all levels). A pattern for every market needs a right
// to every market, also to those which are yet to be listed.
func (r Rights) cover(x stream.Item) (delay int, ok bool, deepest int) {
	for i := range r {
		g := &r[i]
		if g.Market != market.Any && g.Market != x.ID.Market {
			continue
		}
		grants := false
		switch x.Channel {
		case wire.Quotes:
			grants = g.Quotes
		case wire.Status:
			grants = g.Trades || g.Quotes || g.Depth != 0
		case wire.OrderBook:
			grants = g.Depth < 0 || x.Tier.Depth > 0 && x.Tier.Depth <= g.Depth
			deepest = deeper(deepest, g.Depth)
		default: // trades, and what is made of them
			grants = g.Trades
		}
		if grants && (!ok || g.Delay < delay) {
			ok, delay = true, g.Delay
		}
	}
	return delay, ok, deepest
}

// deeper is the deeper of two depths, of which -1 is all levels.
func deeper(a, b int) int {
	if a < 0 || b < 0 {
		return -1
	}
	return max(a, b)
}

// maxDepth is the deepest book tier an identity may have anywhere, as Success tells
// it: 0 all levels, -1 none.
func maxDepth(id *Identity) int {
	deepest := 0
	for i := range id.Rights {
		deepest = deeper(deepest, id.Rights[i].Depth)
	}
	switch {
	case deepest == 0 || !slices.Contains(id.Scopes, scopeDepth):
		return -1
	case deepest < 0:
		return 0
	}
	return deepest
}
