package auth

import (
	"maps"
	"sync"
	"time"
)

// revocations has the ended families whose access tokens have not expired. Every token check reads
// it, so it is divided into shards.
type revocations struct {
	shards [shards]struct {
		mu sync.RWMutex
		at map[string]time.Time
		_  [32]byte // fills a cache line, so that readers of two shards do not slow each other down
	}

	mu       sync.Mutex
	unstored map[string]time.Time // revocations that are not in the Store yet
}

// add records the end of a family and reports whether it is new.
func (r *revocations) add(family string, at time.Time) bool {
	x := &r.shards[shardOf(family)]
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, ok := x.at[family]; ok {
		return false
	}
	if x.at == nil {
		x.at = make(map[string]time.Time)
	}
	x.at[family] = at
	return true
}

func (r *revocations) has(family string) bool {
	x := &r.shards[shardOf(family)]
	x.mu.RLock()
	_, ok := x.at[family]
	x.mu.RUnlock()
	return ok
}

// addUnstored is add for a revocation that only this process knows.
func (r *revocations) addUnstored(family string, at time.Time) bool {
	r.mu.Lock()
	if r.unstored == nil {
		r.unstored = make(map[string]time.Time)
	}
	r.unstored[family] = at
	r.mu.Unlock()
	return r.add(family, at)
}

func (r *revocations) allUnstored() map[string]time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.unstored)
}

func (r *revocations) stored(family string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.unstored, family)
}

func (r *revocations) forget(before time.Time) {
	kept := r.allUnstored()
	for i := range r.shards {
		x := &r.shards[i]
		x.mu.Lock()
		for family, at := range x.at {
			if _, ok := kept[family]; !ok && at.Before(before) {
				delete(x.at, family)
			}
		}
		x.mu.Unlock()
	}
}
