package gateway

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/ruedahq/rueda/internal/audit"
)

// Audit are the settings of the audit log.
type Audit struct {
	Days int // how long its rows are kept; 0: 400
}

const (
	defaultAuditDays = 400
	pruneEvery       = time.Hour
	auditDay         = 24 * time.Hour
)

// AuditLog is the log of what was done to identities.
type AuditLog interface {
	// Chain is what the rows are chained and checked by.
	Chain() audit.Chain
	// AuditStart is after which row the log begins, once older ones were pruned.
	AuditStart(ctx context.Context) (audit.Head, error)
	// AuditRows reads the rows after one, in order.
	AuditRows(ctx context.Context, after int64) iter.Seq2[audit.Row, error]
	// AuditLast reads the newest n rows, in order: those about a user, and of a kind, where these are not "".
	AuditLast(ctx context.Context, n int, user string, kind audit.Kind) ([]audit.Row, error)
}

// Audit is the audit log of Data.
func (d *Data) Audit() AuditLog { return d.store }

// keeper is what a trail wants of a database.
type keeper interface {
	Append(ctx context.Context, events ...audit.Event) error
	PruneAudit(ctx context.Context, before time.Time) (int64, error)
}

// trail tells the audit log what the gateway itself does, and keeps the log's rows no longer than they are to be.
type trail struct {
	store keeper
	keep  time.Duration
	log   *slog.Logger
}

func newTrail(s keeper, cfg Audit, log *slog.Logger) *trail {
	return &trail{store: s, keep: time.Duration(cmp.Or(cfg.Days, defaultAuditDays)) * auditDay, log: log}
}

// tell appends an event. That it cannot is said in the log, and keeps nobody from the market.
func (t *trail) tell(ctx context.Context, kind audit.Kind, detail string) {
	err := t.store.Append(ctx, audit.Event{Time: time.Now(), Kind: kind, Actor: "gateway", Detail: detail})
	if err != nil && ctx.Err() == nil {
		t.log.Error("audit log not written", "reason", string(kind), "error", err)
	}
}

// tellCertificate tells that a certificate was taken into use.
func (g *Gateway) tellCertificate(ctx context.Context, until time.Time) {
	g.trail.tell(ctx, audit.Certificate, "valid until "+until.UTC().Format(time.RFC3339))
}

// runTrail tells that the gateway began, and keeps the log.
func (g *Gateway) runTrail(ctx context.Context) error {
	g.trail.tell(ctx, audit.Started, g.cfg.Version)
	if g.certificate != nil {
		g.tellCertificate(ctx, g.certificate.Expires())
	}
	return g.trail.run(ctx)
}

// run prunes the log until ctx ends.
func (t *trail) run(ctx context.Context) error {
	tick := time.NewTicker(pruneEvery)
	defer tick.Stop()
	for {
		n, err := t.store.PruneAudit(ctx, time.Now().Add(-t.keep))
		switch {
		case err != nil && ctx.Err() == nil:
			t.log.Error("audit log not pruned", "error", err)
		case n > 0:
			t.log.Info("audit log pruned", "lines", n)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// AuditReport is what VerifyAudit read.
type AuditReport struct {
	Rows     int64
	Start    audit.Head // after which row the log begins
	Head     audit.Head // its newest row
	From, To time.Time  // of the first and the last event
	Good     int64      // of a log that is broken at a row: the one before; 0: it was the first, or no row is to blame
}

// VerifyAudit checks every row of the log, and that the row of a head that was noted earlier is still what it was;
// the zero Head: none was. read is told now and then how many rows were read. An error that is
// audit.ErrBroken names the row.
func VerifyAudit(ctx context.Context, log AuditLog, noted audit.Head, read func(rows int64)) (AuditReport, error) {
	for {
		start, err := log.AuditStart(ctx)
		if err != nil {
			return AuditReport{}, err
		}
		report, err := verifyFrom(ctx, log, start, noted, read)
		if err == nil {
			return report, nil
		}
		// What was pruned while it was read is not missing.
		if again, e := log.AuditStart(ctx); e != nil || again == start {
			return report, err
		}
	}
}

// CheckEmptyAudit says whether a log without rows had some once, an audit.ErrBroken: there was one for every user that was added.
func (d *Data) CheckEmptyAudit(ctx context.Context) error {
	users, err := d.Users.List(ctx)
	if err != nil || len(users) == 0 {
		return err
	}
	since := users[0].Created
	for _, u := range users {
		if u.Created.Before(since) {
			since = u.Created
		}
	}
	return fmt.Errorf("%w: it is empty, and the database has users since %s", audit.ErrBroken, since.Format(time.DateOnly))
}

func verifyFrom(ctx context.Context, log AuditLog, start, noted audit.Head, read func(int64)) (r AuditReport, err error) {
	r.Start = start
	there := noted.Seq == 0 || noted == start
	if !there && noted.Seq <= start.Seq {
		return r, fmt.Errorf("row %d was pruned with all up to row %d: note a newer one", noted.Seq, start.Seq)
	}
	r.Head, err = log.Chain().Verify(start, func(yield func(audit.Row, error) bool) {
		for row, err := range log.AuditRows(ctx, start.Seq) {
			if err == nil {
				if r.Rows == 0 {
					r.From = row.Time
				}
				r.Rows, r.To = r.Rows+1, row.Time
				there = there || row.Head() == noted
				read(r.Rows)
			}
			if !yield(row, err) {
				return
			}
		}
	})
	switch {
	case err != nil && r.Rows > r.Head.Seq-start.Seq && r.Head != start:
		r.Good = r.Head.Seq
		return r, err
	case err != nil || there:
		return r, err
	case noted.Seq > r.Head.Seq:
		return r, fmt.Errorf("%w: it ends with row %d, and row %d was noted: rows were taken off its end", audit.ErrBroken, r.Head.Seq, noted.Seq)
	}
	return r, fmt.Errorf("%w: row %d is another than was noted", audit.ErrBroken, noted.Seq)
}
