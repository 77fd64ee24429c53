package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"time"

	"github.com/ruedahq/rueda/internal/audit"
	"github.com/ruedahq/rueda/internal/auth"
)

// ErrKeysThere is the error of NewKeys where the keys are not lost.
var ErrKeysThere = errors.New("the keys are there")

// NewKeysReport is what NewKeys did.
type NewKeysReport struct {
	ID      string   // of the key that signs now
	Rows    int64    // of the audit log before, which the archive has
	Factors []string // users whose second factor cannot be checked any more
}

// NewKeys begins anew with keys in the place of those that a database has lost. All logins are over. The rows of the audit
// log, which no key fits any more, go to the new file archive, as lines of JSON, and are deleted then; the log begins anew with a
// row that says so. No gateway may run on the database meanwhile: it would go on with the keys it has.
func NewKeys(ctx context.Context, cfg DataConfig, archive string) (r NewKeysReport, err error) {
	d, err := openDatabase(ctx, cfg)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if _, _, err := d.keyStore.Load(ctx); err == nil {
		return r, ErrKeysThere
	} else if !errors.Is(err, auth.ErrNotFound) {
		return r, fmt.Errorf("look for the keys: %w", err)
	}
	// The log and the logins go first: whoever breaks off behind that leaves a database that was never used.
	if r.Rows, err = archiveAudit(archive, d.store.AuditRows(ctx, 0)); err != nil {
		return r, fmt.Errorf("archive the audit log: %w", err)
	}
	if err := d.store.BeginAnew(ctx); err != nil {
		return r, err
	}
	if err := d.open(ctx, cfg); err != nil {
		return r, err
	}
	keys, err := d.Keys(ctx)
	if err != nil {
		return r, err
	}
	r.ID = keys[0].ID
	err = d.store.Append(ctx, audit.Event{
		Time: time.Now(), Kind: audit.KeyChanged, Actor: cmp.Or(cfg.Actor, "gateway"),
		Detail: fmt.Sprintf("signing %s; the keys before were lost, and %d rows of this log with them", r.ID, r.Rows),
	})
	if err != nil {
		return r, err
	}
	users, err := d.Users.List(ctx)
	for _, u := range users {
		if u.SecondFactor {
			r.Factors = append(r.Factors, u.Username)
		}
	}
	return r, err
}

// archiveAudit writes rows into a new file, if there are any.
func archiveAudit(name string, rows iter.Seq2[audit.Row, error]) (n int64, err error) {
	var f *os.File
	defer func() {
		if f != nil {
			err = errors.Join(err, f.Sync(), f.Close())
		}
	}()
	for row, wrong := range rows {
		if wrong != nil {
			return n, wrong
		}
		if f == nil {
			if f, err = os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err != nil {
				f = nil
				return n, err
			}
		}
		if err := row.WriteJSON(f); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
