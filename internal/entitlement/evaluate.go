package entitlement

import (
	"slices"
	"strconv"
	"sync"
	"time"

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

// Evaluate returns whether and at which delay a user with scopes may have what a asks for. It
// counts the instrument in the quota if the user may. The reason is Forbidden without a scope,
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

// Daily evaluates requests that have no connection to count instruments for. It counts the
// instruments that a user requests on a UTC day with a limited entitlement. The zero Daily is ready
// to use and safe for concurrent use.
type Daily struct {
	mu    sync.Mutex
	day   int64
	users map[string]counts
}

// counts are the instruments of a user's limited entitlements.
type counts map[countKey]map[market.InstrumentID]struct{}

// countKey identifies an entitlement of a user from one request to the next.
type countKey struct {
	place               int // in the user's list
	market              string
	depth, delay, limit int
	trades, quotes      bool
}

// Evaluate is Quota.Evaluate for a request of a user.
func (d *Daily) Evaluate(user string, rights Set, scopes []string, a Ask, now time.Time) Decision {
	q := rights.Quota(now)
	if !rights.Limited() {
		return q.Evaluate(scopes, a)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if day := now.Unix() / (24 * 60 * 60); d.users == nil || day != d.day {
		d.day, d.users = day, make(map[string]counts)
	}
	q.used = make(map[*broker.Entitlement]map[market.InstrumentID]struct{})
	for i := range rights {
		if used, ok := d.users[user][keyOf(rights, i)]; ok {
			q.used[&rights[i]] = used
		}
	}
	v := q.Evaluate(scopes, a)
	for i := range rights {
		if used := q.used[&rights[i]]; used != nil {
			if d.users[user] == nil {
				d.users[user] = make(counts)
			}
			d.users[user][keyOf(rights, i)] = used
		}
	}
	if v.Reason == wire.SubscriptionLimit && !a.ID.IsPattern() {
		v.Hint += ", over REST on a day"
	}
	return v
}

func keyOf(rights Set, i int) countKey {
	e := &rights[i]
	return countKey{place: i, market: e.Market, depth: e.Depth, delay: e.Delay, limit: e.Instruments, trades: e.Trades, quotes: e.Quotes}
}
