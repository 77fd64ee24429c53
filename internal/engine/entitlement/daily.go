package entitlement

import (
	"fmt"
	"sync"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Counted is an instrument that a user has requested on a UTC day with a limited entitlement.
type Counted struct {
	Day         string // 2026-11-20
	User        string
	Entitlement string // its name: see Set.names
	Instrument  string
}

// DailyStore keeps what a Daily counts, so that it survives restarts.
type DailyStore interface {
	// Counted returns what was counted for a user on a day, as far as it can be read. It is called
	// again after a minute.
	Counted(user, day string) []Counted
	// Count stores c later. It does not block.
	Count(c Counted)
}

const (
	// maxCounted bounds the instruments in the memory of a Daily. Beyond it, all are dropped and
	// read again from the store.
	maxCounted = 1 << 18
	// countedFor is how long what was read from the store counts. Other gateways of the database
	// count too.
	countedFor = time.Minute
)

// Daily evaluates requests that have no connection to count instruments for. It counts the
// instruments that a user requests on a UTC day with a limited entitlement. It is safe for
// concurrent use.
type Daily struct {
	store DailyStore // nil: none
	most  int        // maxCounted

	mu      sync.Mutex
	day     string
	users   map[string]*counts
	counted int // instruments of all users
}

// counts are the instruments of a user's limited entitlements, by their names.
type counts struct {
	by    map[string]map[market.InstrumentID]struct{}
	until time.Time // then the store is read again
}

// NewDaily returns a Daily that keeps its counts in store; nil: only in memory.
func NewDaily(store DailyStore) *Daily { return &Daily{store: store, most: maxCounted} }

// Evaluate is Quota.Evaluate for a request of a user. It may read the store.
func (d *Daily) Evaluate(user string, rights Set, scopes []string, a Ask, now time.Time) Decision {
	q := rights.Quota(now)
	if !rights.Limited() {
		return q.Evaluate(scopes, a)
	}
	day := now.UTC().Format(time.DateOnly)
	u := d.lock(user, day, now)
	defer d.mu.Unlock()
	names := rights.names()
	q.used = make(map[*broker.Entitlement]map[market.InstrumentID]struct{})
	before := make(map[string]int, len(names))
	for i := range rights {
		if used := u.by[names[i]]; used != nil {
			q.used[&rights[i]], before[names[i]] = used, len(used)
		}
	}
	v := q.Evaluate(scopes, a)
	for i := range rights {
		used := q.used[&rights[i]]
		if len(used) == before[names[i]] {
			continue
		}
		u.by[names[i]] = used
		if d.counted++; d.store != nil {
			d.store.Count(Counted{Day: day, User: user, Entitlement: names[i], Instrument: a.ID.String()})
		}
	}
	if v.Reason == wire.SubscriptionLimit && !a.ID.IsPattern() {
		v.Hint += ", over REST on a day"
	}
	return v
}

// lock locks mu and returns the counts of a user on a day, with what the store has.
func (d *Daily) lock(user, day string, now time.Time) *counts {
	d.mu.Lock()
	u := d.of(user, day)
	if d.store == nil || now.Before(u.until) {
		return u
	}
	d.mu.Unlock()
	stored := d.store.Counted(user, day)
	d.mu.Lock()
	u = d.of(user, day)
	d.add(u, stored)
	u.until = now.Add(countedFor)
	return u
}

// of returns the counts of a user on a day. It drops those of another day, and all if there are too
// many.
func (d *Daily) of(user, day string) *counts {
	if d.day != day || d.counted > d.most {
		d.day, d.users, d.counted = day, nil, 0
	}
	if d.users == nil {
		d.users = make(map[string]*counts)
	}
	u := d.users[user]
	if u == nil {
		u = &counts{by: make(map[string]map[market.InstrumentID]struct{})}
		d.users[user] = u
		d.counted++ // users take memory too
	}
	return u
}

// add adds what the store has.
func (d *Daily) add(u *counts, stored []Counted) {
	for _, c := range stored {
		id, err := market.ParseInstrumentID(c.Instrument)
		if err != nil {
			continue
		}
		if u.by[c.Entitlement] == nil {
			u.by[c.Entitlement] = make(map[market.InstrumentID]struct{})
		}
		if _, has := u.by[c.Entitlement][id]; !has {
			u.by[c.Entitlement][id] = struct{}{}
			d.counted++
		}
	}
}

// names returns a name for each entitlement of s that does not depend on its place in the list or
// its limit: what it grants, and a number among those that grant the same.
func (s Set) names() []string {
	names := make([]string, len(s))
	same := make(map[string]int, len(s))
	for i := range s {
		e := &s[i]
		name := fmt.Sprintf("%s trades=%t quotes=%t depth=%d delay=%d", e.Market, e.Trades, e.Quotes, e.Depth, e.Delay)
		same[name]++
		names[i] = fmt.Sprintf("%s #%d", name, same[name])
	}
	return names
}
