package simulation

import (
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/cluster"
)

// startAgain starts the process again. A node that has lost its disk may copy the journal of
// another one first, as package copying does.
func (h *host) startAgain() {
	if h.node == nil && h.disk.epoch == "" && h.disk.position() == 0 && h.w.chance(80) {
		h.copyOf(h.w.hosts[h.w.rng.IntN(len(h.w.hosts))])
		return
	}
	h.start()
}

// standing is what a node says about its journal.
type standing struct {
	cluster.State
	process, epochs int
}

// standing returns what a node says, if its journal can be copied now.
func (h *host) standing() (s standing, ok bool) {
	if h.node == nil || h.paused || h.actions.len() > 0 || h.disk.position() == 0 {
		return s, false
	}
	s.State, ok = h.node.State()
	s.process, s.epochs = h.process, h.epochs
	return s, ok && s.History.Epoch == h.disk.epoch
}

// copyOf copies the journal of a node, which goes on meanwhile, and starts the process. If the node
// vanishes, or its journal is not that of before any more, nothing of it is used.
func (h *host) copyOf(from *host) {
	w, process := h.w, h.process
	before, ok := from.standing()
	if !ok || from == h {
		h.start()
		return
	}
	w.in(w.upTo(200*time.Millisecond), func() {
		rows, base, epoch := slices.Clone(from.disk.rows), from.disk.base, from.disk.epoch
		w.in(w.upTo(200*time.Millisecond), func() {
			if h.process != process || h.node != nil {
				return
			}
			after, ok := from.standing()
			state, err := cluster.StateOfCopy(before.State, after.State)
			if ok && err == nil && before.process == after.process && before.epochs == after.epochs && from.disk.damaged == 0 && epoch == state.History.Epoch {
				w.note("%s copies %s up to %d", h.cfg.Name, from.cfg.Name, base+uint64(len(rows)))
				h.disk = disk{state: state, epoch: epoch, base: base, rows: rows, gaps: true}
				h.synced = h.disk
				w.copies++
			}
			h.start()
		})
	})
}
