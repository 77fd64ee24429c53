package rest

import (
	"sync"
	"time"
)

// maxKeys bounds the keys of a rateTable, over two generations; about 100 bytes each.
const maxKeys = 1 << 17

// window is what a limit counts over. It is also the burst: a key that was quiet
// may spend a whole window's requests at once.
const window = time.Minute

// maxPerWindow is one request a microsecond; whatever allows more allows this.
const maxPerWindow = int(window / time.Microsecond)

// rateTable limits requests by key, by the generic cell rate algorithm: a key's
// state is the one time at which it would be even. An entry older than a window
// says nothing any more, so two generations of entries, changed once a window,
// hold all that count. A table that is full sooner changes sooner; that may
// forgive a key its past but never grows.
type rateTable struct {
	mu       sync.Mutex
	started  time.Time // of the young generation
	young    map[string]time.Time
	old      map[string]time.Time
	maxYoung int
}

func newRateTable() *rateTable { return &rateTable{maxYoung: maxKeys / 2} }

// quota is what a limit says of one request.
type quota struct {
	limit     int           // requests a window
	window    time.Duration // in which all of them come back
	remaining int           // of them, after this request
	reset     time.Duration // until all of them are there again
	wait      time.Duration // until one is; 0: this request may go on
}

// take charges key with one request of limit a window, or refuses and charges nothing.
func (t *rateTable) take(key string, limit int, now time.Time) quota {
	return t.ask(key, limit, now, true)
}

// look is what take would say, and charges nothing.
func (t *rateTable) look(key string, limit int, now time.Time) quota {
	return t.ask(key, limit, now, false)
}

func (t *rateTable) ask(key string, limit int, now time.Time, charge bool) quota {
	limit = min(max(limit, 1), maxPerWindow)
	interval := window / time.Duration(limit)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.young == nil || now.Sub(t.started) >= window || len(t.young) >= t.maxYoung {
		t.old, t.young, t.started = t.young, make(map[string]time.Time), now
	}
	even, ok := t.young[key]
	if !ok {
		even = t.old[key]
	}
	if even.Before(now) {
		even = now
	}
	charged := even.Add(interval)
	if wait := charged.Sub(now) - window; wait > 0 {
		return quota{limit: limit, window: window, reset: even.Sub(now), wait: wait}
	}
	if charge {
		t.young[key] = charged
	}
	ahead := charged.Sub(now)
	return quota{limit: limit, window: window, remaining: int((window - ahead) / interval), reset: ahead}
}
