package host

import (
	"context"
	"errors"
	"time"
)

const (
	stallAfter = 3 * time.Second // without an event; there is one every checkEvery
	watchEvery = time.Second
)

// errStalled means that the node does not handle events.
var errStalled = errors.New("not handling the log: the disk of this node may not respond")

// markHandled notes that the node handles events.
func (h *Host) markHandled() { h.handled.Store(int64(time.Since(h.began))) }

// stalled reports whether the node has handled no event for long, for example because a write to
// its disk does not end.
func (h *Host) stalled() bool {
	return time.Since(h.began)-time.Duration(h.handled.Load()) > stallAfter
}

// watch reports the data of the node as not current while it handles no events, until ctx ends.
func (h *Host) watch(ctx context.Context) {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		stalled := h.stalled()
		if h.held.Swap(stalled) == stalled {
			continue
		}
		if stalled {
			h.log.Error("this node does not handle the log; its disk may not respond", "node", h.name)
		} else {
			h.log.Info("this node handles the log again", "node", h.name)
		}
		h.setCurrent()
	}
}

// setCurrent passes to the hub whether its data is current.
func (h *Host) setCurrent() {
	h.current.Lock()
	defer h.current.Unlock()
	h.cfg.Hub.SetCurrent(h.Shown().Current && !h.held.Load())
}
