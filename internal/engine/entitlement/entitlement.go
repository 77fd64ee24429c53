// Package entitlement decides which market data a user may see, and how late. The stream, REST and
// exports use it.
package entitlement

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Set holds the entitlements of a user. They add up; data that none of them grants is refused. A
// Set is shared between sessions and never changed in place.
type Set []broker.Entitlement

// Delay returns the shortest delay, in seconds, at which s grants a channel of a market.
// depth is the tier of an order book: 0 for all levels.
func (s Set) Delay(name string, c wire.Channel, depth int, at time.Time) (delay int, ok bool) {
	for i := range s {
		e := &s[i]
		if covers(e, name, at) && grants(e, c, depth) && (!ok || e.Delay < delay) {
			delay, ok = e.Delay, true
		}
	}
	return delay, ok
}

// Deepest returns the deepest order book that s grants in any market: 0 for none, -1 for all
// levels.
func (s Set) Deepest(at time.Time) int {
	deepest := 0
	for i := range s {
		if s[i].Valid(at) {
			deepest = deeper(deepest, s[i].Depth)
		}
	}
	return deepest
}

// Limited reports whether an entitlement has a limit of instruments.
func (s Set) Limited() bool {
	return slices.ContainsFunc(s, func(e broker.Entitlement) bool { return e.Instruments > 0 })
}

// Hash returns a hash of what decides about delays at a moment, the same on every node: scopes and
// the entitlements that are valid. It has 32 bits and is not 0. Or it is 0, if the subscriptions of
// a client decide too, because an entitlement has a limit of instruments.
func (s Set) Hash(scopes []string, at time.Time) uint64 {
	if s.Limited() {
		return 0
	}
	h := fnv.New32a()
	fmt.Fprintf(h, "%q", scopes)
	for i := range s {
		if e := &s[i]; e.Valid(at) {
			fmt.Fprintf(h, "%q %t %t %d %d\n", e.Market, e.Trades, e.Quotes, e.Depth, e.Delay)
		}
	}
	return max(1, uint64(h.Sum32()))
}

// Next returns when the next entitlement begins or ends after a moment, or zero if none does.
func (s Set) Next(at time.Time) (next time.Time) {
	for i := range s {
		for _, t := range [...]time.Time{s[i].From, s[i].Until} {
			if t.After(at) && (next.IsZero() || t.Before(next)) {
				next = t
			}
		}
	}
	return next
}

// covers reports whether e is valid at a moment and for a market. A pattern for every market needs
// an entitlement to every market, including markets that are not listed yet.
func covers(e *broker.Entitlement, name string, at time.Time) bool {
	return (e.Market == market.Any || e.Market == name) && e.Valid(at)
}

// grants reports whether e includes a channel, for order books at a depth.
func grants(e *broker.Entitlement, c wire.Channel, depth int) bool {
	switch c {
	case wire.Quotes:
		return e.Quotes
	case wire.Status:
		return e.Trades || e.Quotes || e.Depth != 0
	case wire.OrderBook:
		return e.Depth < 0 || depth > 0 && depth <= e.Depth
	}
	return e.Trades // trades, and the bars and summaries made from them
}

// Level returns the channel in whose name rights to a channel are given and its use is counted:
// Trades, Quotes or OrderBook.
func Level(c wire.Channel) wire.Channel {
	if c == wire.Quotes || c == wire.OrderBook {
		return c
	}
	return wire.Trades
}

// deeper returns the deeper of two depths, of which -1 is all levels.
func deeper(a, b int) int {
	if a < 0 || b < 0 {
		return -1
	}
	return max(a, b)
}
