package entitlement

import (
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Quota counts the instruments for which the limited entitlements of a Set are used at a moment.
// Each subscription uses one entitlement: the one with the shortest delay that has quota left. An
// instrument counts once, for all of its channels.
type Quota struct {
	set  Set
	now  time.Time
	used map[*broker.Entitlement]map[market.InstrumentID]struct{} // of limited entitlements
}

// Quota returns the quota of s, none of it used.
func (s Set) Quota(now time.Time) *Quota { return &Quota{set: s, now: now} }

// AnyDelay makes Find look for the shortest delay.
const AnyDelay = -1

// Match is the result of Find.
type Match struct {
	Right   *broker.Entitlement // the entitlement to use, or nil
	Full    *broker.Entitlement // an entitlement without quota left, or nil
	Deepest int                 // deepest order book of the market: 0 for none, -1 for all levels
}

// Find finds the entitlement to a channel of an instrument or pattern, at one delay or AnyDelay.
func (q *Quota) Find(id market.InstrumentID, c wire.Channel, depth, delay int) (m Match) {
	for i := range q.set {
		e := &q.set[i]
		if !covers(e, id.Market, q.now) {
			continue
		}
		if c == wire.OrderBook {
			m.Deepest = deeper(m.Deepest, e.Depth)
		}
		switch {
		case !grants(e, c, depth) || delay != AnyDelay && e.Delay != delay:
		case !q.left(e, id):
			m.Full = e
		case m.Right == nil || e.Delay < m.Right.Delay || e.Delay == m.Right.Delay && e.Instruments <= 0:
			m.Right = e // of two with the same delay, prefer the one without a limit
		}
	}
	return m
}

// left reports whether an entitlement has quota for id. A limited one has none for a pattern,
// because a pattern may cover any number of instruments.
func (q *Quota) left(e *broker.Entitlement, id market.InstrumentID) bool {
	if e.Instruments <= 0 {
		return true
	}
	if id.IsPattern() {
		return false
	}
	_, counted := q.used[e][id]
	return counted || len(q.used[e]) < e.Instruments
}

// Use counts an instrument or pattern for the entitlement that Find returned.
func (q *Quota) Use(e *broker.Entitlement, id market.InstrumentID) {
	if e.Instruments <= 0 {
		return
	}
	if q.used == nil {
		q.used = make(map[*broker.Entitlement]map[market.InstrumentID]struct{})
	}
	if q.used[e] == nil {
		q.used[e] = make(map[market.InstrumentID]struct{})
	}
	q.used[e][id] = struct{}{}
}
