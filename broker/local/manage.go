package local

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ruedahq/rueda/broker"
)

// ErrExists is returned by Add for a username, and by AddAccount for a number, that is taken.
var ErrExists = errors.New("exists already")

// NewUser is what Add makes a user of.
type NewUser struct {
	Username     string // 1 to 128 bytes without control characters; case matters
	Password     string // MinPassword characters to MaxPassword bytes
	WeakPassword bool   // lets a short password pass, as demo/demo of a development gateway
	Scopes       []string
	Entitlements []broker.Entitlement
	Limits       broker.Limits
}

// Add makes a user. Errors: ErrExists, broker.ErrUnavailable, or what is wrong with n.
func (b *Base) Add(ctx context.Context, n NewUser) (broker.User, error) {
	if err := errors.Join(checkUsername(n.Username), checkPassword(n.Password, n.WeakPassword)); err != nil {
		return broker.User{}, err
	}
	hash, err := b.hash(ctx, n.Password)
	if err != nil {
		return broker.User{}, err
	}
	u := broker.User{
		ID: newID("us_"), Username: n.Username, Scopes: list(n.Scopes),
		Entitlements: list(n.Entitlements), Limits: n.Limits, Version: 1,
	}
	done, err := b.write(ctx, "add a user", `
		INSERT INTO users (id, username, password, scopes, entitlements, limits, version, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		u.ID, u.Username, hash, toJSON(u.Scopes), toJSON(u.Entitlements), toJSON(u.Limits), u.Version, time.Now().Unix())
	if err != nil {
		return broker.User{}, err
	}
	if !done {
		return broker.User{}, fmt.Errorf("user %q %w", n.Username, ErrExists)
	}
	return u, nil
}

// SetPassword gives a user a new password. Logins of before are over.
// Errors: broker.ErrNotFound, broker.ErrUnavailable, or what is wrong with the password.
func (b *Base) SetPassword(ctx context.Context, username, password string) error {
	if err := checkPassword(password, false); err != nil {
		return err
	}
	hash, err := b.hash(ctx, password)
	if err != nil {
		return err
	}
	return b.change(ctx, "set a password", `UPDATE users SET password = ?, version = version + 1 WHERE username = ?`, hash, username)
}

// Disable keeps a user from logging in; logins of before are over. Errors: broker.ErrNotFound, broker.ErrUnavailable.
func (b *Base) Disable(ctx context.Context, username string) error {
	return b.change(ctx, "disable a user", `UPDATE users SET version = version + (disabled = 0), disabled = 1 WHERE username = ?`, username)
}

// Enable lets a disabled user log in again. Errors: broker.ErrNotFound, broker.ErrUnavailable.
func (b *Base) Enable(ctx context.Context, username string) error {
	return b.change(ctx, "enable a user", `UPDATE users SET disabled = 0 WHERE username = ?`, username)
}

// AddAccount gives a user an account. Where a is silent it is an active cash
// account in ARS, owned, for reading and trading, made now and with an id of its
// own. Errors: broker.ErrNotFound (the user), ErrExists, broker.ErrUnavailable, or what is wrong with a.
func (b *Base) AddAccount(ctx context.Context, username string, a broker.Account) (broker.Account, error) {
	if a.Number == "" {
		return broker.Account{}, errors.New("account number is missing")
	}
	u, err := b.read(ctx, "username", username)
	if err != nil {
		return broker.Account{}, err
	}
	a.ID = cmp.Or(a.ID, newID("ac_"))
	a.Name = cmp.Or(a.Name, username)
	a.Type = cmp.Or(a.Type, "cash")
	a.Status = cmp.Or(a.Status, "active")
	a.Currency = cmp.Or(a.Currency, "ARS")
	if a.CreatedAt.IsZero() {
		a.CreatedAt = time.Now()
	}
	a.CreatedAt = a.CreatedAt.UTC().Truncate(time.Second)
	for _, f := range []struct {
		field *[]string
		value []string
	}{{&a.Currencies, []string{a.Currency}}, {&a.Roles, []string{"owner"}}, {&a.Permissions, []string{"read", "trade"}}} {
		if *f.field == nil {
			*f.field = f.value
		}
	}
	done, err := b.write(ctx, "add an account", `
		INSERT INTO accounts (id, user_id, number, name, type, status, currency, currencies, roles, permissions, is_default, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		a.ID, u.ID, a.Number, a.Name, a.Type, a.Status, a.Currency,
		toJSON(a.Currencies), toJSON(a.Roles), toJSON(a.Permissions), a.IsDefault, a.CreatedAt.Unix())
	if err != nil {
		return broker.Account{}, err
	}
	if !done {
		return broker.Account{}, fmt.Errorf("account %q %w", a.Number, ErrExists)
	}
	return a, nil
}

// hash computes the hash of a new password, in a slot as any other.
func (b *Base) hash(ctx context.Context, password string) (string, error) {
	if err := b.slots.acquire(ctx); err != nil {
		return "", err
	}
	defer b.slots.release()
	hash := newHash(b.kdf, password)
	b.garbage.add(uint64(hash.memory) << 10)
	return hash.String(), nil
}

// change writes to one user, who must be there.
func (b *Base) change(ctx context.Context, what, query string, args ...any) error {
	done, err := b.write(ctx, what, query, args...)
	if err == nil && !done {
		err = broker.ErrNotFound
	}
	return err
}

// write executes one statement, says whether it changed a row, and tells Watch.
func (b *Base) write(ctx context.Context, what, query string, args ...any) (bool, error) {
	var n int64
	r, err := b.writer.ExecContext(ctx, query, args...)
	if err == nil {
		n, err = r.RowsAffected()
	}
	if err != nil {
		return false, unavailable(what, err)
	}
	if n > 0 {
		b.mu.Lock()
		defer b.mu.Unlock()
		close(b.changed)
		b.changed = make(chan struct{})
	}
	return n > 0, nil
}

// watchEvery is how often Watch looks for changes by other processes: half of the
// 500 ms in which they must be noticed.
const watchEvery = 250 * time.Millisecond

// Watch calls changed after each change to the user base, or several at once, made
// by this process or another, until ctx ends; it then returns nil. Any write of
// another process to the database counts. One call runs at a time.
func (b *Base) Watch(ctx context.Context, changed func()) error {
	here := b.nextChange()
	version, err := b.dataVersion(ctx)
	if err != nil {
		return fmt.Errorf("watch the user base: %w", err)
	}
	elsewhere, stop, err := b.poll(ctx)
	if err != nil {
		return fmt.Errorf("watch the user base: %w", err)
	}
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-here:
			here = b.nextChange() // before the call, so that none is missed meanwhile
			changed()
		case <-elsewhere:
			// A look that fails is made again: the version still differs then.
			if v, err := b.dataVersion(ctx); err == nil && v != version {
				version = v
				changed()
			}
		}
	}
}

// nextChange is closed by the next change that this process makes.
func (b *Base) nextChange() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}

// poll gives a tick for each look at the database. One in memory has no other
// process, and nil never ticks.
func (b *Base) poll(ctx context.Context) (tick <-chan time.Time, stop func(), err error) {
	var file string
	err = b.writer.QueryRowContext(ctx, `SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&file)
	if err != nil || file == "" {
		return nil, func() {}, err
	}
	t := time.NewTicker(watchEvery)
	return t.C, t.Stop, nil
}

// dataVersion changes when another connection than the writer's commits. In this
// process no other connection writes, so that it means another process.
func (b *Base) dataVersion(ctx context.Context) (v int64, err error) {
	err = b.writer.QueryRowContext(ctx, `PRAGMA data_version`).Scan(&v)
	return v, err
}

// list makes nil an empty list, which is what it reads back as.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func toJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil { // plain structs and lists of strings: a mistake of this package
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return string(b)
}

// newID makes an id that no other user or account ever has.
func newID(prefix string) string {
	b := make([]byte, 12)
	_, _ = rand.Read(b)
	return prefix + base64.RawURLEncoding.EncodeToString(b)
}
