package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ruedahq/rueda/internal/cluster"
	"github.com/ruedahq/rueda/internal/hub"
)

// leaveTime bounds the wait for the readers of an epoch that ends.
const leaveTime = 10 * time.Second

// errOwnRows means that a gateway with rows of its own would join a log that has others.
var errOwnRows = errors.New("the journal has rows of a gateway without a cluster, and the log of the cluster has others")

// beginEpoch begins an epoch in the following hub and in its journal. Sockets stay open: their
// sessions leave the hub, and announce the epoch when they return to it. If that is not possible,
// the process ends with ErrRestart, and starts again with an empty journal.
func (h *Host) beginEpoch(ctx context.Context, a cluster.BeginEpoch) error {
	if a.Epoch == h.cfg.Hub.Epoch() && a.Position == h.cfg.Hub.Figures().Position {
		return nil
	}
	position, grown := h.cfg.Hub.Figures().Position, h.grown
	if grown && a.Position != position {
		return h.refuseRows()
	}
	isNew := position == 0
	h.epochs++
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	h.cfg.Hub.EndEpoch()
	if h.cfg.OnEpoch != nil {
		h.cfg.OnEpoch()
	}
	err := h.cfg.Hub.BeginEpoch(ctx, a.Epoch, a.Position)
	h.grown = grown && err != nil
	switch {
	case err == nil && isNew:
		h.log.Info("this node begins with the epoch of the log", "epoch", a.Epoch, "position", a.Position)
		return nil
	case err == nil:
		h.log.Warn("the log has begun another epoch", "epoch", a.Epoch, "position", a.Position, "took", time.Since(began).Round(time.Millisecond))
		return nil
	case !errors.Is(err, hub.ErrHasRows):
		return fmt.Errorf("begin epoch %s: %w", a.Epoch, err)
	case grown:
		return h.refuseRows()
	}
	return h.reset(a.Epoch)
}

// refuseRows ends a gateway with rows of its own that would join a log with others. The state that
// was saved is removed, so that the next start finds the same.
func (h *Host) refuseRows() error {
	err := fmt.Errorf("%w. To join as a new node, remove the folder %s; to begin the cluster with its rows, see docs/cluster.md, \"From one process to a cluster\"",
		errOwnRows, h.cfg.Setup.journal)
	return errors.Join(err, removeIfThere(statePath(h.cfg.Setup.folder)))
}

// reset requests an empty journal, and ends the process.
func (h *Host) reset(epoch string) error {
	if err := writeReset(h.cfg.Setup.folder, epoch); err != nil {
		return err
	}
	return fmt.Errorf("%w (epoch %s)", ErrRestart, epoch)
}
