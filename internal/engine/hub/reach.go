package hub

import (
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/engine/readjob"
)

// A client may resume with rows that this hub does not have yet, because another node of a cluster
// sent them. A hub that follows waits for such rows for a short time.

const (
	reachTime = 5 * time.Second // longest wait for rows
	maxReach  = 1 << 12         // waits; beyond them, clients are answered at once
)

// reach is a wait for rows. The hub's lock guards it.
type reach struct {
	ahead func() bool
	until int64 // by the hub's clock
	wait  *readjob.Wait
}

// Follows reports whether the hub of a port applies the rows of another one. The caller does not
// need the lock.
func Follows(p *Port) bool { return p.hub.cfg.Following }

// AwaitRows waits until ahead is false, for at most 5 s. ahead is called with the hub's lock held,
// and reports whether rows are missing among the committed ones. found is called by a goroutine of
// the hub when the wait has ended. AwaitRows returns nil if it need not or cannot wait. The
// caller does not hold the lock.
func AwaitRows(p *Port, ahead func() bool, found func()) *readjob.Wait {
	h := p.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commit()
	if !h.running || len(h.reaches) >= maxReach || !ahead() {
		return nil
	}
	w := readjob.NewWait(1, found)
	h.reaches = append(h.reaches, reach{ahead, h.clock() + int64(reachTime), w})
	h.commitNow()
	h.kickClock()
	return w
}

// checkReaches wakes Run if the rows of a wait have come, or its client has gone. The hub's lock is
// held.
func (h *publisher) checkReaches() {
	if slices.ContainsFunc(h.reaches, func(x reach) bool { return x.over() }) {
		h.kickClock()
	}
}

// over reports whether a wait has no reason any more. The hub's lock is held.
func (x *reach) over() bool { return x.wait.Stopped() || !x.ahead() }

// takeReached removes the waits that have ended, and returns the time until the next one ends, or
// 0. The hub's lock is held.
func (h *publisher) takeReached() (ended []*readjob.Wait, next time.Duration) {
	clock := h.clock()
	h.reaches = slices.DeleteFunc(h.reaches, func(x reach) bool {
		if x.until > clock && !x.over() {
			next = sooner(next, time.Duration(x.until-clock))
			return false
		}
		ended = append(ended, x.wait)
		return true
	})
	return ended, next
}
