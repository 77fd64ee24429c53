package entitlement

import (
	"slices"
	"strconv"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Ask is market data that a user requests, over whatever interface.
type Ask struct {
	ID      market.InstrumentID // or a pattern; an export of a market has *|MARKET|*
	Channel wire.Channel
	Depth   int  // of an order book; 0 for all levels
	Past    bool // history
}

// Decision is the answer to an Ask.
type Decision struct {
	Delay  int         // of the data, in seconds
	Reason wire.Reason // "": allowed; Forbidden, NotEntitled or SubscriptionLimit
	Hint   string
}

// Evaluate decides whether, and at which delay, a user with scopes may have the data that a asks
// for. If so, it counts the instrument in the quota. The reason is Forbidden without a scope,
// NotEntitled without a right to the data, and SubscriptionLimit if the rights have no quota left.
func (q *Quota) Evaluate(scopes []string, a Ask) Decision {
	has := func(scope string) bool { return slices.Contains(scopes, scope) }
	needs := func(scope, more string) Decision {
		return Decision{Reason: wire.Forbidden, Hint: "Needs the scope " + scope + more}
	}
	book := a.Channel == wire.OrderBook
	switch {
	case !has(broker.ScopeRead) && !(a.Past && has(broker.ScopeHistory)):
		return needs(broker.ScopeRead, "")
	case a.Past && !has(broker.ScopeHistory):
		return needs(broker.ScopeHistory, "")
	case a.ID.IsPattern() && !a.Past && !has(broker.ScopeWildcard):
		return needs(broker.ScopeWildcard, "; name instruments one by one")
	}
	m := q.Find(a.ID, a.Channel, a.Depth, AnyDelay)
	switch {
	case m.Right == nil && m.Full != nil:
		return Decision{Reason: wire.SubscriptionLimit, Hint: quotaHint(m.Full.Instruments, a.ID)}
	case m.Right == nil && book && m.Deepest != 0:
		return Decision{Reason: wire.NotEntitled, Hint: "Order books up to depth " + strconv.Itoa(m.Deepest)}
	case m.Right == nil:
		return Decision{Reason: wire.NotEntitled}
	case book && !has(broker.ScopeDepth):
		return needs(broker.ScopeDepth, "")
	}
	q.Use(m.Right, a.ID)
	return Decision{Delay: m.Right.Delay}
}

// quotaHint returns a hint that names the limit of instruments of a right.
func quotaHint(limit int, id market.InstrumentID) string {
	hint := "Your right to " + id.Market + " is to " + strconv.Itoa(limit) + " instruments at a time"
	if id.IsPattern() {
		hint += "; name them one by one"
	}
	return hint
}
