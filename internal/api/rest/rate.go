package rest

import (
	"time"

	"github.com/ruedahq/rueda/internal/base/ratelimit"
	"github.com/ruedahq/rueda/internal/engine/web"
)

// maxKeys bounds how many keys a limiter keeps in memory.
const maxKeys = 1 << 17

// window is the period that limits refer to. A key that made no requests for a whole window may
// make all of its requests at once.
const window = time.Minute

// quotas limits the requests of each key, such as a user or an address.
type quotas struct{ limiter *ratelimit.Limiter[string] }

func newQuotas() quotas { return quotas{ratelimit.NewLimiter[string](maxKeys)} }

// take charges a request to key, which may make limit requests per window. If the limit is
// exhausted, take charges nothing, and the Wait of the Quota is positive.
func (t quotas) take(key string, limit int, now time.Time) web.Quota {
	return t.ask(t.limiter.Take, key, limit, now)
}

// refund takes back one charge of key.
func (t quotas) refund(key string, limit int) {
	t.limiter.Refund(key, ratelimit.Per(limit, window, limit))
}

// check returns the Quota of key like take, but charges nothing.
func (t quotas) check(key string, limit int, now time.Time) web.Quota {
	return t.ask(t.limiter.Check, key, limit, now)
}

func (t quotas) ask(ask func(string, ratelimit.Rate, time.Time) (ahead, wait time.Duration), key string, limit int, now time.Time) web.Quota {
	limit = min(max(limit, 1), ratelimit.MaxPer(window))
	r := ratelimit.Per(limit, window, limit)
	ahead, wait := ask(key, r, now)
	return web.Quota{Limit: limit, Window: window, Remaining: int((r.Burst - ahead) / r.Interval), Reset: ahead, Wait: wait}
}
