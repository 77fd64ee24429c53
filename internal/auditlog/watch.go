package auditlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ruedahq/rueda/internal/audit"
)

const (
	// watchInterval is the interval between two checks of the newest row. anchorInterval is the
	// interval between two copies of it to another place.
	watchInterval  = time.Minute
	anchorInterval = time.Hour
)

// Anchor stores a head of the log in another place than the log.
type Anchor interface {
	// Anchored returns the stored head; zero: none.
	Anchored() (audit.Head, error)
	// Anchor stores a head, unless a later one is stored.
	Anchor(ctx context.Context, head audit.Head) error
}

// AppendLog is a log that can be read and written.
type AppendLog interface {
	Log
	Appender
}

// watcher remembers the newest row that it has seen.
type watcher struct {
	log      AppendLog
	anchor   Anchor
	logger   *slog.Logger
	last     audit.Head
	broken   bool      // rows were removed: the anchor stays where it is
	anchored time.Time // when the head was last stored
}

// Watch checks once a minute, until ctx ends, that the rows of the log still lead to the newest one
// that was seen, or stored before a restart. If the log was emptied or cut, the log of the process
// and a new row report that. Once an hour and at the end it stores the newest row in anchor and
// writes it to the log of the process.
func Watch(ctx context.Context, log AppendLog, anchor Anchor, logger *slog.Logger) {
	w := &watcher{log: log, anchor: anchor, logger: logger}
	if head, err := anchor.Anchored(); err != nil {
		logger.Error("anchored head of the audit log not read", "error", err)
	} else {
		w.last = head
	}
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		w.check(ctx)
		if time.Since(w.anchored) >= anchorInterval {
			w.store(ctx)
		}
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), retryDelay)
			defer cancel()
			w.check(last)
			w.store(last)
			return
		case <-tick.C:
		}
	}
}

// check compares the log with the last seen row.
func (w *watcher) check(ctx context.Context) {
	head, err := Newest(ctx, w.log)
	if err == nil {
		err = Contains(ctx, w.log, head, w.last)
	}
	switch {
	case err == nil:
		w.last = head
	case errors.Is(err, audit.ErrBroken):
		w.broken = true
		w.logger.Error("audit log was cut or changed", "error", err)
		Record(ctx, w.log, audit.ChainBroken, fmt.Sprintf("row %d is not as it was, the log ends with row %d", w.last.Seq, head.Seq), w.logger)
		if head, err := Newest(ctx, w.log); err == nil {
			w.last = head // each cut is reported once
		}
	case ctx.Err() == nil:
		w.logger.Warn("audit log not checked", "error", err)
	}
}

// store anchors the last seen row, unless the log was cut: rueda audit verify compares the log with
// the anchor.
func (w *watcher) store(ctx context.Context) {
	w.anchored = time.Now()
	if w.last.Seq == 0 || w.broken {
		return
	}
	w.logger.Info("head of the audit log", "head", w.last.String())
	if err := w.anchor.Anchor(ctx, w.last); err != nil {
		w.anchored = time.Time{} // again in a minute
		w.logger.Warn("head of the audit log not anchored", "error", err)
	}
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
