package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/ruedahq/rueda/internal/audit"
	"github.com/ruedahq/rueda/internal/auth"
)

// ErrKeysThere is the error of NewKeys where the keys are not lost.
var ErrKeysThere = errors.New("the keys are there")

// NewKeysReport is what NewKeys did.
type NewKeysReport struct {
	ID      string   // of the key that signs now
	Rows    int64    // of the audit log before, which archive was given
	Factors []string // users whose second factor cannot be checked any more
}

// NewKeys begins anew with keys in the place of those that a database has lost. All logins are over. The rows of the audit
// log, which no key fits any more, are given to archive, and deleted once that has returned; the log begins anew with a
// row that says so. No gateway may run on the database meanwhile: it would go on with the keys it has.
func NewKeys(ctx context.Context, cfg DataConfig, archive func(rows iter.Seq2[audit.Row, error]) (int64, error)) (r NewKeysReport, err error) {
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
	if r.Rows, err = archive(d.store.AuditRows(ctx, 0)); err != nil {
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
