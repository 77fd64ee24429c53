package rest

import (
	"time"

	"github.com/ruedahq/rueda/internal/base/ratelimit"
	"github.com/ruedahq/rueda/internal/engine/web"
)

// maxKeys bounds the keys whose requests are counted.
const maxKeys = 1 << 17

// window is the time that a limit counts over. It is also the burst: a key that was quiet may make
// all requests of a window at once.
const window = time.Minute

// quotas limits requests by key.
type quotas struct{ limiter *ratelimit.Limiter[string] }

func newQuotas() quotas { return quotas{ratelimit.NewLimiter[string](maxKeys)} }

// take charges key with one request of limit a window. If that exceeds the limit, it charges
// nothing.
func (t quotas) take(key string, limit int, now time.Time) web.Quota {
	return t.ask(t.limiter.Take, key, limit, now)
}

// refund reverts one charge of key.
func (t quotas) refund(key string, limit int) {
	t.limiter.Refund(key, ratelimit.Per(limit, window, limit))
}

// check returns the state that key has without this request.
func (t quotas) check(key string, limit int, now time.Time) web.Quota {
	return t.ask(t.limiter.Check, key, limit, now)
}

func (t quotas) ask(ask func(string, ratelimit.Rate, time.Time) (ahead, wait time.Duration), key string, limit int, now time.Time) web.Quota {
	limit = min(max(limit, 1), ratelimit.MaxPer(window))
	r := ratelimit.Per(limit, window, limit)
	ahead, wait := ask(key, r, now)
	return web.Quota{Limit: limit, Window: window, Remaining: int((r.Burst - ahead) / r.Interval), Reset: ahead, Wait: wait}
}
