package auditlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ruedahq/rueda/internal/base/audit"
)

const (
	// watchInterval is the time between two checks of the newest row, and between two copies of it
	// to the anchor. logInterval is the time between two copies to the log of the process.
	watchInterval = time.Minute
	logInterval   = time.Hour
)

// Anchor stores a head of the log in another place than the log.
type Anchor interface {
	// Anchored returns the stored head; zero: none.
	Anchored() (audit.Head, error)
	// Anchor stores a head if the stored one is still from.
	Anchor(ctx context.Context, from, head audit.Head) error
	// Reanchor stores a head whatever is stored.
	Reanchor(ctx context.Context, head audit.Head) error
}

// AppendLog is a log that can be read and written.
type AppendLog interface {
	Log
	Appender
}

// WatchedLog is a log that remembers what this process has written.
type WatchedLog interface {
	AppendLog
	// AuditWritten returns the newest row that this process has written, and one that it had
	// written and that a later transaction did not find; zero: there is none.
	AuditWritten() (head, missing audit.Head)
}

// watcher remembers the newest row that it has seen.
type watcher struct {
	log      WatchedLog
	anchor   Anchor
	logger   *slog.Logger
	last     audit.Head
	stored   audit.Head // by any gateway, at the last check
	reported map[audit.Head]bool
	owed     audit.Head // reported, and not anchored yet
	logged   time.Time  // when the log of the process last had the head
}

// Watch checks once a minute, until ctx ends, that the rows of the log still lead to the newest one
// that was seen, written by this process, or stored before a restart. If the log was emptied or
// cut, the log of the process and a new row report that, and anchor keeps the row that is missing.
// Otherwise Watch stores the newest row in anchor: all gateways together once a minute, and each at
// its end. Once an hour it writes that row to the log of the process.
func Watch(ctx context.Context, log WatchedLog, anchor Anchor, logger *slog.Logger) {
	w := &watcher{log: log, anchor: anchor, logger: logger, reported: map[audit.Head]bool{}}
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		w.check(ctx, false)
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), retryDelay)
			defer cancel()
			w.check(last, true)
			return
		case <-tick.C:
		}
	}
}

// check compares the log with the rows that were there, and stores its head.
func (w *watcher) check(ctx context.Context, end bool) {
	if w.owed.Seq > 0 {
		w.keep(ctx, w.owed)
	}
	written, missing := w.log.AuditWritten() // before the log is read, which may have later rows
	anchored, err := w.anchor.Anchored()
	if err != nil {
		w.logger.Error("anchored head of the audit log not read", "error", err)
		return
	}
	head, err := Newest(ctx, w.log)
	for _, row := range []audit.Head{anchored, missing, w.last, written} {
		if err == nil && !w.reported[row] {
			if err = Contains(ctx, w.log, head, row); errors.Is(err, audit.ErrBroken) {
				w.broken(ctx, row, head, err)
				return
			}
		}
	}
	if err != nil {
		if ctx.Err() == nil {
			w.logger.Warn("audit log not checked", "error", err)
		}
		return
	}
	w.last = head
	if w.reported[anchored] {
		return // rueda audit verify compares the log with it
	}
	w.store(ctx, anchored, end)
}

// broken reports a row that is not there any more, and stores its head, so that every verification
// fails from now on.
func (w *watcher) broken(ctx context.Context, row, head audit.Head, err error) {
	w.reported[row] = true
	w.logger.Error("audit log was cut or changed", "error", err)
	w.keep(ctx, row)
	Record(ctx, w.log, audit.ChainBroken, fmt.Sprintf("row %d is not as it was, the log ends with row %d", row.Seq, head.Seq), w.logger)
	if head, err := Newest(ctx, w.log); err == nil {
		w.last = head // each cut is reported once
	}
}

// keep anchors a row that is missing.
func (w *watcher) keep(ctx context.Context, row audit.Head) {
	w.owed = audit.Head{}
	if err := w.anchor.Reanchor(ctx, row); err != nil {
		w.owed = row // again in a minute
		w.logger.Error("missing row of the audit log not anchored", "error", err)
	}
}

// store anchors the newest row, unless another gateway has done so since the last check.
func (w *watcher) store(ctx context.Context, anchored audit.Head, end bool) {
	others := anchored != w.stored
	w.stored = anchored
	if w.last.Seq == 0 {
		return
	}
	if now := time.Now(); end || now.Sub(w.logged) >= logInterval {
		w.logged = now
		w.logger.Info("head of the audit log", "head", w.last.String())
	}
	if w.last == anchored || others && !end {
		return
	}
	if err := w.anchor.Anchor(ctx, anchored, w.last); err != nil {
		w.logger.Warn("head of the audit log not anchored", "error", err)
		return
	}
	w.stored = w.last
}

// Newest returns the head of the log.
func Newest(ctx context.Context, log Log) (audit.Head, error) {
	rows, err := log.AuditLast(ctx, 1, "", "")
	if err != nil {
		return audit.Head{}, err
	}
	if len(rows) > 0 {
		return rows[0].Head(), nil
	}
	return log.AuditStart(ctx)
}

// Contains returns audit.ErrBroken unless a row is in the log with its head, or was pruned.
func Contains(ctx context.Context, log Log, head, row audit.Head) error {
	if row.Seq == 0 || row == head {
		return nil
	}
	if head.Seq < row.Seq {
		return fmt.Errorf("%w: it ends with row %d, but had row %d", audit.ErrBroken, head.Seq, row.Seq)
	}
	start, err := log.AuditStart(ctx)
	if err != nil {
		return err
	}
	if row.Seq <= start.Seq {
		return nil
	}
	for found, err := range log.AuditRows(ctx, row.Seq-1) {
		if err != nil {
			return err
		}
		if found.Head() == row {
			return nil
		}
		break
	}
	return fmt.Errorf("%w: row %d differs from the one that was there before", audit.ErrBroken, row.Seq)
}
