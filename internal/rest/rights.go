package rest

import (
	"slices"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/wire"
)

// allLevels is a depth beyond every tier.
const allLevels = 1<<31 - 1

// rights are what a user may see of one market.
type rights struct {
	trades, quotes bool
	depth          int // deepest tier; allLevels: all levels
}

// rightsIn adds up the user's entitlements to a market; what none grants is refused.
func rightsIn(u *broker.User, name string) (r rights) {
	for _, e := range u.Entitlements {
		if e.Market != name && e.Market != "*" {
			continue
		}
		r.trades = r.trades || e.Trades
		r.quotes = r.quotes || e.Quotes
		depth := e.Depth
		if depth < 0 {
			depth = allLevels
		}
		r.depth = max(r.depth, depth)
	}
	return r
}

// needScope refuses a user without a scope.
func (q *request) needScope(scope string) *wire.Fault {
	if slices.Contains(q.user.Scopes, scope) {
		return nil
	}
	return wire.NewFault(wire.Forbidden, "This needs the scope "+scope)
}
