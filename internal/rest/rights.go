package rest

import (
	"net/http"
	"slices"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/entitlement"
	"github.com/ruedahq/rueda/wire"
)

// right returns the shortest delay in seconds at which a user may have a channel of a market, and
// false without a right to it. depth is the tier of an order book: 0 for all levels.
func right(u *broker.User, name string, c wire.Channel, depth int) (delay int, ok bool) {
	return entitlement.Set(u.Entitlements).Delay(name, c, depth, time.Now())
}

// rightNow is right for current data. As on the stream, a right with a delay that is not served
// counts as none. History needs no such delay.
func (h *Handler) rightNow(u *broker.User, name string, c wire.Channel, depth int) (delay int, ok bool) {
	if delay, ok = right(u, name, c, depth); ok && h.cfg.Hub.Serves(delay) {
		return delay, true
	}
	return 0, false
}

// use is market data that a request asks for and its user may have.
type use struct {
	market  string
	channel wire.Channel
	delay   int
}

// uses remembers what the answer is going to have. Whether there is one is not known yet: the rest of the request may
// be wrong, or nobody has the time to read what it asks for.
func (q *request) uses(name string, c wire.Channel, delay int) {
	q.used = append(q.used, use{name, c, delay})
}

// tellUse tells what an answer has. One without a body, because it is an error, or the client has the data already
// or wants the header alone, has nothing.
func (h *Handler) tellUse(q *request, a *answer) {
	if a.status != http.StatusOK || q.Method == http.MethodHead {
		return
	}
	for _, u := range q.used {
		h.cfg.Used(q.user.ID, u.market, entitlement.Level(u.channel).String(), u.delay)
	}
}

// deny refuses data of a market for want of a right.
func (h *Handler) deny(q *request, name string, c wire.Channel, msg string) *wire.Fault {
	h.cfg.Denied(q.user.ID, name, entitlement.Level(c).String(), string(wire.NotEntitled))
	return wire.NewFault(wire.NotEntitled, msg)
}

// needScope refuses a user without a scope.
func (q *request) needScope(scope string) *wire.Fault {
	if slices.Contains(q.user.Scopes, scope) {
		return nil
	}
	return wire.NewFault(wire.Forbidden, "This needs the scope "+scope)
}
