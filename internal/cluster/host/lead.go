package host

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/cluster"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/market"
)

// leadership is the time in which this node numbers.
type leadership struct {
	term    cluster.Term
	pending *pendingRows
	cancel  context.CancelFunc
	ended   chan struct{} // closed when its goroutines have ended
}

// reasonNewSequencer is the reason of the gap when another node begins to run the feeds.
const reasonNewSequencer = "sequencer_changed"

// lead begins to number.
func (h *Host) lead(ctx context.Context, a cluster.Lead) error {
	h.stopLeading("another leadership begins")
	before := h.retired
	ctx, cancel := context.WithCancel(ctx)
	l := &leadership{term: a.Term, pending: newPendingRows(h.cfg.Journal, a.Position), cancel: cancel, ended: make(chan struct{})}
	h.leading = l
	h.leads.Store(true)
	h.log.Info("this node is the sequencer", "node", h.name, "position", a.Position, "term", a.Term.Number)
	h.tasks.Go(func() {
		defer close(l.ended)
		defer cancel()
		if before != nil {
			<-before.ended // the sources cannot run twice
		}
		if err := h.number(ctx, l, a); err != nil && ctx.Err() == nil {
			h.log.Error("numbering ended", "error", err)
			h.pass(ctx, arrival{event: cluster.Resigned{}})
		}
	})
	return nil
}

// number makes the numbering hub, and runs it with the feeds until ctx ends.
func (h *Host) number(ctx context.Context, l *leadership, a cluster.Lead) error {
	began := time.Now()
	h.cfg.Hub.Commit()
	numbering := h.cfg.Numbering.Hub(l.pending)
	if err := numbering.RestoreFrom(ctx, h.cfg.Journal); err != nil {
		return err
	}
	if n := numbering.Figures().Position; n != a.Position {
		if n != 0 || numbering.Continue(a.Epoch, a.Position) != nil {
			return fmt.Errorf("the journal of this node ends at position %d, but the log ends at %d", n, a.Position)
		}
	}
	if a.Exact {
		numbering.HoldSources(l.pending.hold(a.Sources), h.cfg.Journal)
	}
	numbering.Interrupted(reasonNewSequencer)
	h.log.Info("numbering begins", "position", a.Position, "took", time.Since(began).Round(time.Millisecond))
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { _ = numbering.Run(ctx) }) // it returns nil
	return h.cfg.Numbering.Run(ctx, numbering, sink{numbering, l.pending})
}

// sink is the numbering hub for feeds, which wait while too many rows wait for the log.
type sink struct {
	*hub.Hub
	pending *pendingRows
}

// Publish implements feed.Sink.
func (s sink) Publish(events []market.Event) error {
	s.pending.await()
	return s.Hub.Publish(events)
}

// stopLeading drops what was numbered.
func (h *Host) stopLeading(reason string) {
	l := h.leading
	if l == nil {
		return
	}
	h.leading, h.retired = nil, l
	h.leads.Store(false)
	l.pending.close()
	l.cancel()
	h.log.Warn("this node is no longer the sequencer", "node", h.name, "reason", reason, "term", l.term.Number)
}

// offered returns a channel with an element when the numbering hub has rows. It returns nil while
// the node does not lead, and while an append is in progress: rows are then collected, so that they
// need fewer batches.
func (h *Host) offered() <-chan struct{} {
	if h.leading == nil || h.node.Appending() {
		return nil
	}
	return h.leading.pending.wake
}

// offer passes the rows of the numbering hub to the state machine.
func (h *Host) offer(ctx context.Context) error {
	l := h.leading
	for _, g := range l.pending.take() {
		if err := h.handle(ctx, cluster.Offered{Group: g}); err != nil || h.leading != l {
			return err
		}
	}
	return nil
}

// explainWait logs what a node waits for before it leads, when that changes.
func (h *Host) explainWait() {
	now := strings.Join(h.node.Status().Awaited, ", ")
	if now != h.awaited && now != "" {
		h.log.Warn("no sequencer: this node waits before it takes over", "node", h.name, "for", now)
	}
	if now != "" || h.Shown().Current { // it waits for the same again after it has released the lease
		h.awaited = now
	}
}

// resignWait bounds the time for the end of a leadership.
const resignWait = time.Second

// resign ends the leadership or an attempt to lead in an orderly way, so that another node need not
// wait for the lease.
func (h *Host) resign(ctx context.Context) {
	if h.session == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, resignWait)
	defer cancel()
	if h.leading != nil && h.offer(ctx) != nil || h.handle(ctx, cluster.Resigned{}) != nil {
		return
	}
	for h.leading != nil || h.node.Status().Leads || h.node.Status().Releasing {
		select {
		case <-ctx.Done():
			return
		case a := <-h.events:
			if h.arrived(ctx, a) != nil {
				return
			}
		case m := <-h.messages():
			if h.message(ctx, m) != nil {
				return
			}
		case <-h.closed():
			return
		}
	}
}

var _ hub.RowLog = (*pendingRows)(nil)
