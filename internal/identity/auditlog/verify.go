package auditlog

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/ruedahq/rueda/internal/base/audit"
)

// Log is an audit log that can be read.
type Log interface {
	// Chain returns the hash chain of the rows.
	Chain() audit.Chain
	// AuditStart returns the head before the oldest row: the zero Head until rows are pruned.
	AuditStart(ctx context.Context) (audit.Head, error)
	// AuditRows returns the rows after a sequence number, in order.
	AuditRows(ctx context.Context, after int64) iter.Seq2[audit.Row, error]
	// AuditLast returns the newest n rows in order, limited to a user and a kind that are not "".
	AuditLast(ctx context.Context, n int, user string, kind audit.Kind) ([]audit.Row, error)
}

// Report describes the rows that Verify read.
type Report struct {
	Rows     int64
	Start    audit.Head // the head before the oldest row
	Head     audit.Head // the newest row
	From, To time.Time  // of the first and the last event
	Good     int64      // the last correct row before a broken one; 0: none, or no row is broken
}

// Verify checks every row of the log, and that the log still contains the row of a head that was
// noted earlier (zero Head: none). It calls read with the number of rows after each. An error
// that is audit.ErrBroken names the row.
func Verify(ctx context.Context, log Log, noted audit.Head, read func(rows int64)) (Report, error) {
	for {
		start, err := log.AuditStart(ctx)
		if err != nil {
			return Report{}, err
		}
		report, err := verifyFrom(ctx, log, start, noted, read)
		if err == nil {
			return report, nil
		}
		// Rows that were pruned during the check are not missing.
		if again, e := log.AuditStart(ctx); e != nil || again == start {
			return report, err
		}
	}
}

// verifyFrom checks the rows after start.
func verifyFrom(ctx context.Context, log Log, start, noted audit.Head, read func(int64)) (r Report, err error) {
	r.Start = start
	found := noted.Seq == 0 || noted == start
	if !found && noted.Seq <= start.Seq {
		return r, fmt.Errorf("row %d was pruned, like all rows up to %d: use a newer one", noted.Seq, start.Seq)
	}
	r.Head, err = log.Chain().Verify(start, func(yield func(audit.Row, error) bool) {
		for row, err := range log.AuditRows(ctx, start.Seq) {
			if err == nil {
				if r.Rows == 0 {
					r.From = row.Time
				}
				r.Rows, r.To = r.Rows+1, row.Time
				found = found || row.Head() == noted
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
	case err != nil || found:
		return r, err
	case noted.Seq > r.Head.Seq:
		return r, fmt.Errorf("%w: it ends with row %d, but row %d was noted: rows were removed from its end", audit.ErrBroken, r.Head.Seq, noted.Seq)
	}
	return r, fmt.Errorf("%w: row %d differs from the noted one", audit.ErrBroken, noted.Seq)
}
