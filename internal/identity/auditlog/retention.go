package auditlog

import (
	"context"
	"log/slog"
	"time"

	"github.com/ruedahq/rueda/internal/base/audit"
)

const pruneInterval = time.Hour

// Record appends an event of the gateway itself. An error is logged only: market data does not
// depend on the audit log.
func Record(ctx context.Context, log Appender, kind audit.Kind, detail string, logger *slog.Logger) {
	err := log.Append(ctx, audit.Event{Time: time.Now(), Kind: kind, Actor: "gateway", Detail: detail})
	if err != nil && ctx.Err() == nil {
		logger.Error("audit log not written", "reason", string(kind), "error", err)
	}
}

// Pruner removes old rows of the audit log.
type Pruner interface {
	// PruneAudit removes the rows before a time and returns their number.
	PruneAudit(ctx context.Context, before time.Time) (int64, error)
}

// Prune removes the rows that are older than age, once an hour until ctx ends.
func Prune(ctx context.Context, log Pruner, age time.Duration, logger *slog.Logger) {
	tick := time.NewTicker(pruneInterval)
	defer tick.Stop()
	for {
		n, err := log.PruneAudit(ctx, time.Now().Add(-age))
		switch {
		case err != nil && ctx.Err() == nil:
			logger.Error("audit log not pruned", "error", err)
		case n > 0:
			logger.Info("audit log pruned", "lines", n)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
