package database

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"time"

	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
)

// ErrKeysExist is the error of NewKeys for a database whose keys are not lost.
var ErrKeysExist = errors.New("the keys exist")

// NewKeysReport describes what NewKeys did.
type NewKeysReport struct {
	ID      string   // of the key that signs now
	Rows    int64    // of the old audit log, in the archive
	Factors []string // users whose second factor cannot be checked any more
}

// NewKeys makes new keys for a database that has lost its own. All logins end. No key verifies the
// old rows of the audit log: they are written to the new file archive as JSON lines and deleted.
// The new log begins with a row that says so. No gateway may use the database meanwhile: it would
// keep its old keys.
func NewKeys(ctx context.Context, cfg Config, archive string) (r NewKeysReport, err error) {
	d, err := openStore(ctx, cfg)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if _, _, err := d.keyStore.Load(ctx); err == nil {
		return r, ErrKeysExist
	} else if !errors.Is(err, keyset.ErrNoDocument) {
		return r, fmt.Errorf("look for the keys: %w", err)
	}
	// The log and the logins are deleted first: after an interruption the database counts as new.
	if r.Rows, err = archiveAudit(archive, d.Store.AuditRows(ctx, 0)); err != nil {
		return r, fmt.Errorf("archive the audit log: %w", err)
	}
	if err := d.Store.Reset(ctx); err != nil {
		return r, err
	}
	if err := d.openUsers(ctx, false); err != nil {
		return r, err
	}
	keys, err := d.OperatorKeys(ctx)
	if err != nil {
		return r, err
	}
	r.ID = keys.Keys()[0].ID
	err = d.Store.Append(ctx, audit.Event{
		Time: time.Now(), Kind: audit.KeyChanged, Actor: cmp.Or(cfg.Actor, "gateway"),
		Detail: fmt.Sprintf("signing %s; the previous keys were lost, and %d rows of this log with them", r.ID, r.Rows),
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

// archiveAudit writes rows into a new file, unless there are none.
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
