package auditexport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auditlog"
)

const (
	pollInterval   = time.Second      // between two looks for new rows
	lease          = 30 * time.Second // after which another process may send
	sendLimit      = 10 * time.Second // of one batch
	releaseLimit   = 2 * time.Second  // of returning the lease at the end
	firstRetry     = time.Second      // doubled with each failure
	longestRetry   = time.Minute
	reportInterval = time.Minute // between two log lines about the same outage
	statusInterval = time.Hour   // between two log lines about the position

	maxRows  = 500       // of a batch
	maxBytes = 512 << 10 // of the texts of a batch, unless one row is larger
)

// Log is the audit log, with the progress of its exports.
type Log interface {
	auditlog.AppendLog
	// ClaimExport makes holder the only process that sends to the receiver name, until lease has
	// passed, and returns the newest row that was sent. ok is false if another process has it.
	ClaimExport(ctx context.Context, name, holder string, lease time.Duration) (sent audit.Head, ok bool, err error)
	// MoveExport stores the newest row that was sent. held is false if another process has the
	// export.
	MoveExport(ctx context.Context, name, holder string, sent audit.Head, lease time.Duration) (held bool, err error)
}

// Receiver is a server outside that rows are sent to.
type Receiver interface {
	// Name returns the name under which the position is stored.
	Name() string
	// Send sends rows, in order. It connects if necessary.
	Send(ctx context.Context, rows []audit.Row) error
	// Settle returns how long rows must have been sent before they count as received, if the
	// connection still stands. It is 0 if Send waits for an acknowledgement.
	Settle() time.Duration
	// Check returns an error if the connection has ended.
	Check() error
	// Close closes the connection. Send opens a new one.
	Close()
}

// export sends the rows to one receiver.
type export struct {
	log    Log
	to     Receiver
	holder string
	logger *slog.Logger

	held     bool
	claimed  time.Time  // when the lease was last extended
	stored   audit.Head // the newest row that counts as received
	sent     audit.Head // the newest row that was sent
	settling audit.Head // the row that counts as received when it has settled; the zero Head: none
	since    time.Time  // when settling was sent

	failures int       // in a row
	failedAt time.Time // when the last failure was logged
	statusAt time.Time // when the position was last logged
}

// Run sends the rows of log to receivers until ctx ends.
func Run(ctx context.Context, log Log, receivers []Receiver, logger *slog.Logger) {
	host, _ := os.Hostname()
	holder := fmt.Sprintf("%s:%d", host, os.Getpid())
	var all sync.WaitGroup
	defer all.Wait()
	for _, to := range receivers {
		e := &export{log: log, to: to, holder: holder, logger: logger}
		all.Go(func() { e.run(ctx) })
	}
}

func (e *export) run(ctx context.Context) {
	defer e.release(ctx)
	for {
		wait := e.step(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// step sends one batch and returns how long to wait until the next.
func (e *export) step(ctx context.Context) time.Duration {
	if !e.held || time.Since(e.claimed) >= lease/3 {
		if err := e.claim(ctx); err != nil {
			return e.failed(ctx, err)
		}
		if !e.held { // another process sends
			e.to.Close()
			return lease / 3
		}
	}
	rows, err := e.next(ctx)
	if err == nil && len(rows) > 0 {
		err = e.send(ctx, rows)
	}
	if err == nil {
		err = e.settle(ctx)
	}
	if err != nil {
		return e.failed(ctx, err)
	}
	e.status(ctx)
	if len(rows) > 0 {
		return 0
	}
	return pollInterval
}

// claim makes this process the sender, or extends its lease, and checks that the log still has the
// newest row that was sent.
func (e *export) claim(ctx context.Context) error {
	position, ok, err := e.log.ClaimExport(ctx, e.to.Name(), e.holder, lease)
	if err != nil || !ok {
		e.held = false
		return err
	}
	if !e.held {
		e.held, e.stored, e.sent, e.settling = true, position, position, audit.Head{}
	}
	e.claimed = time.Now()
	return e.checkSent(ctx)
}

// checkSent checks that the log still has the newest row that was sent. Otherwise rows were removed
// or changed after they had been sent. Then all rows are sent again, because it is not known at
// which row the change begins.
func (e *export) checkSent(ctx context.Context) error {
	head, err := auditlog.Newest(ctx, e.log)
	if err == nil {
		err = auditlog.Contains(ctx, e.log, head, e.sent)
	}
	if !errors.Is(err, audit.ErrBroken) {
		return err
	}
	e.logger.Error("audit log was cut or changed", "type", e.to.Name(), "error", err)
	auditlog.Record(ctx, e.log, audit.ChainBroken, fmt.Sprintf("%s has row %d, the log ends with row %d", e.to.Name(), e.sent.Seq, head.Seq), e.logger)
	e.stored, e.sent, e.settling = audit.Head{}, audit.Head{}, audit.Head{}
	return nil
}

// next returns the rows after the last one that was sent, at most one batch.
func (e *export) next(ctx context.Context) (rows []audit.Row, err error) {
	bytes := 0
	for row, err := range e.log.AuditRows(ctx, e.sent.Seq) {
		if err != nil {
			return nil, err
		}
		bytes += len(row.Actor) + len(row.User) + len(row.Family) + len(row.Address) + len(row.Client) + len(row.Detail)
		if len(rows) > 0 && bytes > maxBytes {
			break
		}
		if rows = append(rows, row); len(rows) == maxRows {
			break
		}
	}
	if len(rows) == 0 || e.sent.Seq == 0 || e.continues(e.sent, &rows[0]) {
		return rows, nil
	}
	before := e.sent
	if err := e.checkSent(ctx); err != nil || e.sent == before {
		return rows, err
	}
	return e.next(ctx) // from the first row
}

// continues reports whether a row can follow before. It must have the hash of before, or the rows
// in between must have been pruned.
func (e *export) continues(before audit.Head, r *audit.Row) bool {
	return r.Seq != before.Seq+1 || r.Hash == e.log.Chain().Link(before.Hash, r.Seq, &r.Event)
}

// send sends rows and checks that they continue the chain.
func (e *export) send(ctx context.Context, rows []audit.Row) error {
	limited, cancel := context.WithTimeout(ctx, sendLimit)
	defer cancel()
	if err := e.to.Send(limited, rows); err != nil {
		return err
	}
	before := e.sent
	for i := range rows {
		r := &rows[i]
		switch {
		case !e.continues(before, r):
			e.logger.Error("audit log was cut or changed", "type", e.to.Name(), "sequence", r.Seq)
		case r.Seq != before.Seq+1 && before.Seq > 0:
			e.logger.Warn("audit log pruned before it was exported", "type", e.to.Name(), "sequence", r.Seq, "count", r.Seq-before.Seq-1)
		}
		before = r.Head()
	}
	e.sent = before
	if e.settling.Seq == 0 {
		e.settling, e.since = e.sent, time.Now()
	}
	return nil
}

// settle stores the position of rows that count as received.
func (e *export) settle(ctx context.Context) error {
	if e.settling.Seq == 0 {
		return nil
	}
	if err := e.to.Check(); err != nil {
		return err
	}
	if time.Since(e.since) < e.to.Settle() {
		return nil
	}
	held, err := e.log.MoveExport(ctx, e.to.Name(), e.holder, e.settling, lease)
	if err != nil {
		return err
	}
	if e.held = held; held {
		e.claimed = time.Now()
	}
	e.stored = e.settling
	if e.settling = (audit.Head{}); e.sent != e.stored {
		e.settling, e.since = e.sent, time.Now()
	}
	return nil
}

// failed closes the connection and returns how long to wait. Rows that do not count as received
// are sent again.
func (e *export) failed(ctx context.Context, err error) time.Duration {
	e.to.Close()
	e.sent, e.settling = e.stored, audit.Head{}
	wait := min(firstRetry<<min(e.failures, 10), longestRetry)
	wait += rand.N(wait/4 + 1) //nolint:gosec // spreads the load of several gateways
	e.failures++
	if ctx.Err() == nil && time.Since(e.failedAt) >= reportInterval {
		e.failedAt = time.Now()
		e.logger.Warn("audit log not exported, retrying", "type", e.to.Name(), "error", err, "again_in", wait, "count", e.behind(ctx))
	}
	return wait
}

// status logs the end of an outage, and the position once an hour.
func (e *export) status(ctx context.Context) {
	recovered := e.failures > 0 && !e.failedAt.IsZero()
	e.failures, e.failedAt = 0, time.Time{}
	if recovered || time.Since(e.statusAt) >= statusInterval {
		e.statusAt = time.Now()
		e.logger.Info("audit log exported", "type", e.to.Name(), "head", e.sent.String(), "count", e.behind(ctx))
	}
}

// behind returns the number of rows that the receiver does not have; -1: unknown.
func (e *export) behind(ctx context.Context) int64 {
	head, err := auditlog.Newest(ctx, e.log)
	if err != nil {
		return -1
	}
	return max(0, head.Seq-e.sent.Seq)
}

// release closes the connection and returns the lease, so that another process can continue.
func (e *export) release(ctx context.Context) {
	e.to.Close()
	if !e.held {
		return
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit)
	defer cancel()
	if _, _, err := e.log.ClaimExport(last, e.to.Name(), e.holder, 0); err != nil {
		e.logger.Warn("audit export not released", "type", e.to.Name(), "error", err)
	}
}
