package rest

import (
	"net/http"
	"slices"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/wire"
)

// allLevels is a depth beyond every tier.
const allLevels = 1<<31 - 1

// rights are what a user may see of one market.
type rights struct {
	trades, quotes, book bool
	delay                int    // seconds; the longest that what is granted comes by
	delays               [3]int // of trades, quotes and book
}

// rightsIn adds up the user's entitlements that hold now to a market and a depth of book (0: none is
// asked for); what none grants is refused, and the shortest delay of each counts.
func rightsIn(u *broker.User, name string, depth int) (r rights) {
	delays, now := &r.delays, time.Now()
	grant := func(have *bool, delay *int, e *broker.Entitlement) {
		if !*have || e.Delay < *delay {
			*have, *delay = true, e.Delay
		}
	}
	for i := range u.Entitlements {
		e := &u.Entitlements[i]
		if e.Market != name && e.Market != "*" || !e.Valid(now) {
			continue
		}
		if e.Trades {
			grant(&r.trades, &delays[0], e)
		}
		if e.Quotes {
			grant(&r.quotes, &delays[1], e)
		}
		if depth > 0 && (e.Depth < 0 || e.Depth >= depth) {
			grant(&r.book, &delays[2], e)
		}
	}
	r.settle(depth)
	return r
}

// settle finds the longest delay.
func (r *rights) settle(depth int) {
	if depth > 0 {
		r.delay = r.delays[2]
	} else {
		r.delay = max(r.delays[0], r.delays[1])
	}
}

// rightsNow is rightsIn for what the stream tells now: a right at a delay that is not served is none, as on the stream.
// History needs no such delay to be served.
func (h *Handler) rightsNow(u *broker.User, name string, depth int) rights {
	r := rightsIn(u, name, depth)
	for i, have := range []*bool{&r.trades, &r.quotes, &r.book} {
		if *have && !h.cfg.Hub.Serves(r.delays[i]) {
			*have, r.delays[i] = false, 0
		}
	}
	r.settle(depth)
	return r
}

// statusRight says whether a user may have the statuses of a market, as whoever has a right to any of its
// data may, and how many seconds late.
func statusRight(u *broker.User, name string) (ok bool, delay int) {
	now := time.Now()
	for i := range u.Entitlements {
		e := &u.Entitlements[i]
		if e.Market != name && e.Market != "*" || !e.Trades && !e.Quotes && e.Depth == 0 || !e.Valid(now) {
			continue
		}
		if !ok || e.Delay < delay {
			ok, delay = true, e.Delay
		}
	}
	return ok, delay
}

// Levels of market data, as Config.Used and Denied are told them.
const (
	levelTrades = "trades"
	levelQuotes = "quotes"
	levelBook   = "order_book"
)

// use is market data that a request asks for and its user may have.
type use struct {
	market, level string
	delay         int
}

// uses remembers what the answer is going to have. Whether there is one is not known yet: the rest of the request may
// be wrong, or nobody has the time to read what it asks for.
func (q *request) uses(name, level string, delay int) {
	q.used = append(q.used, use{name, level, delay})
}

// tellUse tells what an answer has. One without a body, because it is an error, or the client has the data already
// or wants the header alone, has nothing.
func (h *Handler) tellUse(q *request, a *answer) {
	if a.status != http.StatusOK || q.Method == http.MethodHead {
		return
	}
	for _, u := range q.used {
		h.cfg.Used(q.user.ID, u.market, u.level, u.delay)
	}
}

// deny refuses data of a market for want of a right.
func (h *Handler) deny(q *request, name, level, msg string) *wire.Fault {
	h.cfg.Denied(q.user.ID, name, level, string(wire.NotEntitled))
	return wire.NewFault(wire.NotEntitled, msg)
}

// needScope refuses a user without a scope.
func (q *request) needScope(scope string) *wire.Fault {
	if slices.Contains(q.user.Scopes, scope) {
		return nil
	}
	return wire.NewFault(wire.Forbidden, "This needs the scope "+scope)
}
