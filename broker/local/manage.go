package local

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/base/audit"
)

// ErrExists is returned by Add, AddAccount and AddGroup if the name or number is taken.
var ErrExists = errors.New("exists already")

// ErrCase is wrapped by an ErrExists if the existing name differs in case.
var ErrCase = errors.New("names differ only by case")

// NewUser is the input of Add.
type NewUser struct {
	Username     string // 1 to 128 bytes in NFKC, of one script, without invisible characters; unique without regard to case
	Password     string // Config.MinPassword characters to MaxPassword bytes, not a common one
	MustChange   bool   // the user must change the password before logging in
	WeakPassword bool   // skips the checks, for demo/demo of a development gateway
	Scopes       []string
	Entitlements []broker.Entitlement
	Limits       broker.Limits
	Networks     []netip.Prefix // from which the user may come; none: from anywhere
	Groups       []string       // that the user joins
}

// Add adds a user, who never exists without the networks and groups. Errors: ErrExists, ErrNoGroup,
// broker.ErrUnavailable, or what is wrong with n.
func (b *Base) Add(ctx context.Context, n NewUser) (broker.User, error) {
	own := Rights{Scopes: n.Scopes, Entitlements: n.Entitlements, Limits: n.Limits, Networks: n.Networks}
	if err := errors.Join(CheckNewUsername(n.Username), b.checkPassword(n.Username, n.Password, n.WeakPassword), own.Check()); err != nil {
		return broker.User{}, err
	}
	hash, err := b.passwords.Hash(ctx, n.Password, netip.Addr{})
	if err != nil {
		return broker.User{}, err
	}
	var u broker.User
	err = b.write(ctx, "add a user", func(c *change) (err error) {
		u, err = c.add(ctx, n.Username, hash, false, own)
		if err == nil && n.MustChange {
			_, err = c.exec(ctx, `UPDATE users SET must_change = TRUE WHERE id = ?`, u.ID)
		}
		for _, g := range n.Groups {
			if err == nil {
				_, err = c.member(ctx, u.ID, g, "joins", joinGroup)
			}
		}
		return err
	})
	if err != nil {
		return broker.User{}, err
	}
	return u, nil
}

// add inserts a user with a password hash.
func (c *change) add(ctx context.Context, username, hash string, disabled bool, own Rights) (broker.User, error) {
	u := broker.User{
		ID: newID("us_"), Username: username, Scopes: list(own.Scopes),
		Entitlements: list(own.Entitlements), Limits: own.Limits, Networks: own.Networks, Version: 1,
	}
	var taken string
	found, err := c.one(ctx, `SELECT username FROM users WHERE lower(username) = lower(`+c.base.sql.name()+`) LIMIT 1`, username, &taken)
	if err != nil {
		return broker.User{}, err
	}
	if found && taken != username {
		return broker.User{}, fmt.Errorf("user %q %w (%w)", taken, ErrExists, ErrCase)
	}
	n, err := c.exec(ctx, `
		INSERT INTO users (id, username, password, disabled, scopes, entitlements, limits, networks, version, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		u.ID, u.Username, hash, disabled, toJSON(u.Scopes), toJSON(u.Entitlements), toJSON(u.Limits), toJSON(list(u.Networks)), u.Version, time.Now().Unix())
	if err != nil {
		return broker.User{}, err
	}
	if n == 0 {
		return broker.User{}, fmt.Errorf("user %q %w", username, ErrExists)
	}
	c.log(audit.UserAdded, u.ID, strings.Join(own.changes(Rights{}), "; "))
	return u, nil
}

// List returns all users, ordered by username, including disabled ones.
func (b *Base) List(ctx context.Context) ([]Entry, error) {
	rows, err := b.users(ctx, selectUsers+` ORDER BY u.id, g.name`)
	if err != nil {
		return nil, unavailable("list users", err)
	}
	all := make([]Entry, len(rows))
	for i := range rows {
		if rows[i].bad != nil {
			return nil, fmt.Errorf("list users: %w", rows[i].bad)
		}
		all[i] = rows[i].Entry
	}
	slices.SortFunc(all, func(x, y Entry) int { return cmp.Compare(x.Username, y.Username) })
	return all, nil
}

// Entry returns a user, including a disabled one. Errors: broker.ErrNotFound, broker.ErrBadUser,
// broker.ErrUnavailable.
func (b *Base) Entry(ctx context.Context, username string) (Entry, error) {
	if checkUsername(username) != nil { // no user has such a name
		return Entry{}, broker.ErrNotFound
	}
	u, err := b.read(ctx, "u.username", username)
	return u.Entry, cmp.Or(err, u.bad)
}

// EntryByID returns the user with an id, even one whose rights cannot be decoded. Errors:
// broker.ErrNotFound, broker.ErrUnavailable.
func (b *Base) EntryByID(ctx context.Context, id string) (Entry, error) {
	if checkUsername(id) != nil { // no id has this form
		return Entry{}, broker.ErrNotFound
	}
	u, err := b.read(ctx, "u.id", id)
	return u.Entry, err
}

// Page returns up to limit users after a username, ordered by username, including those whose
// rights cannot be decoded. Errors: broker.ErrUnavailable.
func (b *Base) Page(ctx context.Context, after string, limit int) ([]Entry, error) {
	rows, err := b.users(ctx, selectUsers+`
		WHERE u.id IN (SELECT id FROM users WHERE username > ? ORDER BY username LIMIT ?) ORDER BY u.username, g.name`, after, limit)
	if err != nil {
		return nil, unavailable("list users", err)
	}
	page := make([]Entry, len(rows))
	for i := range rows {
		page[i] = rows[i].Entry
	}
	return page, nil
}

// SetPassword sets a user's password and ends all logins. Errors: broker.ErrNotFound,
// broker.ErrUnavailable, or what is wrong with the password.
func (b *Base) SetPassword(ctx context.Context, username, password string) error {
	return b.setPassword(ctx, username, password, false)
}

// SetTemporaryPassword is SetPassword for a password that the user must change before logging in.
func (b *Base) SetTemporaryPassword(ctx context.Context, username, password string) error {
	return b.setPassword(ctx, username, password, true)
}

func (b *Base) setPassword(ctx context.Context, username, password string, mustChange bool) error {
	if err := b.checkPassword(username, password, false); err != nil {
		return err
	}
	hash, err := b.passwords.Hash(ctx, password, netip.Addr{})
	if err != nil {
		return err
	}
	return b.write(ctx, "set a password", func(c *change) error {
		id, err := c.userID(ctx, username)
		if err != nil {
			return err
		}
		if _, err := c.exec(ctx, `UPDATE users SET password = ?, must_change = ?, version = version + 1 WHERE id = ?`, hash, mustChange, id); err != nil {
			return err
		}
		c.log(audit.UserChanged, id, "password")
		return c.unlockFactor(ctx, id)
	})
}

// Disable refuses logins of a user and ends existing ones. Errors: broker.ErrNotFound,
// broker.ErrUnavailable.
func (b *Base) Disable(ctx context.Context, username string) error {
	return b.set(ctx, "disable a user", username, audit.UserChanged, "disabled",
		`UPDATE users SET version = version + 1, disabled = TRUE WHERE id = ? AND NOT disabled`)
}

// Enable allows logins of a disabled user. Errors: broker.ErrNotFound, broker.ErrUnavailable.
func (b *Base) Enable(ctx context.Context, username string) error {
	return b.set(ctx, "enable a user", username, audit.UserChanged, "enabled",
		`UPDATE users SET disabled = FALSE WHERE id = ? AND disabled`)
}

// SetExpiry sets when a user's account ends, in whole seconds. With the zero time it never ends. At
// that time logins are refused and existing ones end. Errors: broker.ErrNotFound,
// broker.ErrUnavailable.
func (b *Base) SetExpiry(ctx context.Context, username string, at time.Time) (changed bool, err error) {
	unix, detail := int64(0), "does not expire"
	if !at.IsZero() {
		unix, detail = at.Unix(), "expires "+shortTime(at)
	}
	err = b.write(ctx, "set the end of an account", func(c *change) error {
		id, err := c.userID(ctx, username)
		if err != nil {
			return err
		}
		// No gateway may have noticed that the account had ended: its logins must not come back.
		n, err := c.exec(ctx, `UPDATE users SET expires_at = ?, version = version + CASE WHEN expires_at <> 0 AND expires_at <= ? THEN 1 ELSE 0 END
			WHERE id = ? AND expires_at <> ?`, unix, time.Now().Unix(), id, unix)
		if changed = n > 0; changed {
			c.log(audit.UserChanged, id, detail)
		}
		return err
	})
	return changed && err == nil, err
}

// Logout ends all logins of a user. Errors: broker.ErrNotFound, broker.ErrUnavailable.
func (b *Base) Logout(ctx context.Context, username string) error {
	return b.set(ctx, "end the logins of a user", username, audit.UserEnded, "all sessions",
		`UPDATE users SET version = version + 1 WHERE id = ?`)
}

// set changes a user with a statement whose last parameter is the user's id. If no row changes,
// there is no audit event.
func (b *Base) set(ctx context.Context, what, username string, kind audit.Kind, detail, query string, args ...any) error {
	return b.write(ctx, what, func(c *change) error {
		id, err := c.userID(ctx, username)
		if err != nil {
			return err
		}
		n, err := c.exec(ctx, query, append(args, id)...)
		if n > 0 {
			c.log(kind, id, detail)
		}
		return err
	})
}

// rehash stores a new password hash after a successful login. It ignores errors: the next login
// tries again. It does not overwrite a password that was changed in the meantime.
func (b *Base) rehash(ctx context.Context, u *row, login broker.Login) {
	hash, err := b.passwords.Hash(ctx, login.Password, login.Address)
	if err != nil {
		return
	}
	before, _ := b.passwords.Known(u.password)
	_ = b.write(ctx, "replace a hash", func(c *change) error {
		c.quiet = true // rights do not change
		n, err := c.exec(ctx, `UPDATE users SET password = ? WHERE id = ? AND password = ?`, hash, u.ID, u.password)
		if n > 0 {
			c.log(audit.UserChanged, u.ID, "password hash renewed, was "+before)
		}
		return err
	})
}

// AddAccount adds an account to a user. Defaults of a: an active cash account in ARS, owned, for
// reading and trading, created now, with a new id. A user's first account is always the default.
// Errors: broker.ErrNotFound (the user), ErrExists, broker.ErrUnavailable, or what is wrong with a.
func (b *Base) AddAccount(ctx context.Context, username string, a broker.Account) (broker.Account, error) {
	if a.Number == "" {
		return broker.Account{}, errors.New("account number is missing")
	}
	if len(a.Number) > maxNumber || strings.ContainsFunc(a.Number, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`;,|"`, r) }) {
		return broker.Account{}, fmt.Errorf("account number %q is not of 1 to %d printable characters without spaces and ; , | \"", a.Number, maxNumber)
	}
	a.ID = cmp.Or(a.ID, newID("ac_"))
	a.Name = cmp.Or(a.Name, username)
	a.Type = cmp.Or(a.Type, "cash")
	a.Status = cmp.Or(a.Status, "active")
	a.Currency = cmp.Or(a.Currency, "ARS")
	if len(a.Currency) != 3 || strings.Trim(a.Currency, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return broker.Account{}, fmt.Errorf("currency %q is not three capital letters, such as ARS", a.Currency)
	}
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
	err := b.write(ctx, "add an account", func(c *change) error {
		id, err := c.userID(ctx, username)
		if err != nil {
			return err
		}
		others, err := c.one(ctx, `SELECT id FROM accounts WHERE user_id = ? ORDER BY number LIMIT 1`, id, new(string))
		if err != nil {
			return err
		}
		a.IsDefault = a.IsDefault || !others
		n, err := c.exec(ctx, `
			INSERT INTO accounts (id, user_id, number, name, type, status, currency, currencies, roles, permissions, is_default, created_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			a.ID, id, a.Number, a.Name, a.Type, a.Status, a.Currency,
			toJSON(a.Currencies), toJSON(a.Roles), toJSON(a.Permissions), a.IsDefault, a.CreatedAt.Unix())
		if err == nil && n == 0 {
			err = fmt.Errorf("account %q %w", a.Number, ErrExists)
		}
		c.log(audit.UserChanged, id, "account "+a.Number)
		return err
	})
	if err != nil {
		return broker.Account{}, err
	}
	return a, nil
}

// maxNumber is the maximum length of an account number.
const maxNumber = 64

// newID returns a new id, which is never used again.
func newID(prefix string) string {
	b := make([]byte, 12)
	_, _ = rand.Read(b)
	return prefix + base64.RawURLEncoding.EncodeToString(b)
}
