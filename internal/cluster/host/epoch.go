package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ruedahq/rueda/internal/cluster"
	"github.com/ruedahq/rueda/internal/engine/hub"
)

// leaveTime bounds the wait for the readers of an epoch that ends.
const leaveTime = 10 * time.Second

// errOwnRows means that a gateway with rows of its own would join a log that has others.
var errOwnRows = errors.New("the journal has rows from before this node was in the cluster, and the log of the cluster has others")

// beginEpoch begins an epoch in the following hub and in its journal. Sockets stay open: their
// sessions leave the hub, and announce the epoch when they return to it. If that is not possible,
// the process ends with ErrRestart, and starts again with an empty journal.
func (h *Host) beginEpoch(ctx context.Context, a cluster.BeginEpoch) error {
	position := h.cfg.Hub.Figures().Position
	switch {
	case a.Epoch == h.cfg.Hub.Epoch() && a.Position == position:
		return h.endGrowth()
	case a.Epoch == h.cfg.Hub.Epoch(): // the process ended before the state was stored
	case h.grown && (a.Position != position || position == 0 && h.Status().Holder != h.name):
		return h.ownRows()
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
	switch {
	case err == nil && isNew:
		h.log.Info("this node begins with the epoch of the log", "epoch", a.Epoch, "position", a.Position)
		return h.endGrowth()
	case err == nil:
		h.log.Warn("the log has begun another epoch", "epoch", a.Epoch, "position", a.Position, "took", time.Since(began).Round(time.Millisecond))
		return h.endGrowth()
	case !errors.Is(err, hub.ErrHasRows):
		return fmt.Errorf("begin epoch %s: %w", a.Epoch, err)
	case h.grown:
		return h.ownRows()
	}
	return h.reset(a.Epoch)
}

// ownRows returns the error of a gateway with rows of its own that would join a log with others.
func (h *Host) ownRows() error {
	return fmt.Errorf("%w. If the cluster should begin with this journal, as after a restore: stop all nodes, "+
		"remove the stream with nats stream rm -f rueda-%s, and start this node first. To join as a new node instead: move the folder %s away",
		errOwnRows, h.cfg.Setup.log.Cluster, h.cfg.Setup.journal)
}

// endGrowth stores the state of a gateway that has become a node. Before, a new start would find a
// gateway again.
func (h *Host) endGrowth() error {
	if !h.grown {
		return nil
	}
	h.grown = false
	if s, ok := h.node.State(); ok {
		return writeState(h.cfg.Setup.folder, s, true)
	}
	return nil
}

// reset requests an empty journal, and ends the process.
func (h *Host) reset(epoch string) error {
	if err := writeReset(h.cfg.Setup.folder, epoch); err != nil {
		return err
	}
	return fmt.Errorf("%w (epoch %s)", ErrRestart, epoch)
}
