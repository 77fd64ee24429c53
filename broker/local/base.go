package local

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/password"
	"github.com/ruedahq/rueda/internal/base/audit"
)

// Config configures a Base. Writer is required; other fields state their default.
type Config struct {
	Writer *sql.DB // SQLite: one connection (SetMaxOpenConns(1)), on which Watch relies
	Reader *sql.DB // Writer

	Postgres bool // the database is PostgreSQL
	// Listen waits for notifications of the database, for Watch on PostgreSQL. It calls its
	// function after each notification, after each reconnect and every few seconds, until ctx ends.
	Listen func(ctx context.Context, channel string, changed func()) error

	Slots     int           // concurrent password checks: one less than GOMAXPROCS, at least one
	Queue     int           // calls that wait for a slot: 64 for each slot
	QueueWait time.Duration // time limit of that wait: 2 s

	Cost        password.Cost // of new hashes: 19 MiB, two passes
	Peppers     [][]byte      // keys mixed into passwords, the first for new hashes: none
	MinPassword int           // minimum characters of a new password: DefaultMinPassword
	Breached    string        // file of passwords from breaches, see password.Breached: none
	Words       []string      // names of service and company, which do not count in a new password: OTPIssuer alone
	OTPIssuer   string        // name of the gateway in authenticator apps, without a colon: "Rueda"

	// Secret encrypts second factors; without it users cannot have one. Store it outside the
	// database.
	Secret []byte

	// Audit writes an audit event in the transaction of its change; nil: there is no audit log.
	// Actor is the author of changes in that log: "gateway".
	Audit func(ctx context.Context, tx *sql.Tx, e audit.Event) error
	Actor string
}

// Base is the user base.
type Base struct {
	writer    *sql.DB
	reader    *sql.DB
	sql       dialect
	listen    func(ctx context.Context, channel string, changed func()) error
	passwords *password.Checker
	factors   *factors // nil: there is no Secret
	min       int
	breached  *password.Breached // nil: none
	words     []string           // in lower case
	issuer    string
	audit     func(ctx context.Context, tx *sql.Tx, e audit.Event) error
	actor     string
	client    broker.Caller // of the actor, for the audit log; zero: none
	changes   *changes
}

// ByOperator returns the same user base for changes by an operator. The audit log shows them with
// this name and client.
func (b *Base) ByOperator(name string, client broker.Caller) *Base {
	by := *b
	by.actor, by.client = name, client
	return &by
}

// Open opens a Base and migrates its tables.
func Open(ctx context.Context, cfg Config) (*Base, error) {
	if cfg.Writer == nil {
		return nil, errors.New("user base: a database is needed")
	}
	if cfg.Reader == nil {
		cfg.Reader = cfg.Writer
	}
	if cfg.MinPassword <= 0 {
		cfg.MinPassword = DefaultMinPassword
	}
	cfg.Actor, cfg.OTPIssuer = cmp.Or(cfg.Actor, "gateway"), cmp.Or(cfg.OTPIssuer, "Rueda")
	if cfg.Audit == nil {
		cfg.Audit = func(context.Context, *sql.Tx, audit.Event) error { return nil }
	}
	b := &Base{
		writer: cfg.Writer, reader: cfg.Reader, sql: dialect{postgres: cfg.Postgres}, listen: cfg.Listen,
		passwords: password.New(password.Config{
			Slots: cfg.Slots, Queue: cfg.Queue, QueueWait: cfg.QueueWait, Cost: cfg.Cost, Peppers: cfg.Peppers,
		}),
		min: cfg.MinPassword, issuer: cfg.OTPIssuer, audit: cfg.Audit, actor: cfg.Actor,
		changes: &changes{next: make(chan struct{})},
	}
	for _, word := range append(slices.Clip(cfg.Words), cfg.OTPIssuer) {
		b.words = append(b.words, strings.ToLower(word))
	}
	if cfg.Breached != "" {
		var err error
		if b.breached, err = password.OpenBreached(cfg.Breached); err != nil {
			return nil, fmt.Errorf("user base: %w", err)
		}
	}
	if cfg.Secret != nil {
		var err error
		if b.factors, err = newFactors(cfg.Secret); err != nil {
			return nil, fmt.Errorf("user base: %w", err)
		}
	}
	if err := b.sql.migrate(ctx, cfg.Writer); err != nil {
		return nil, fmt.Errorf("user base: %w", err)
	}
	return b, nil
}

// Passwords returns the password checker, for its counters.
func (b *Base) Passwords() *password.Checker { return b.passwords }

// Authenticate implements broker.Users. Checks that can fail are made after the hash, so that all
// logins take the same time. With ErrInvalidCredentials and ErrSecondFactor it returns the id of an
// existing user, for the audit log.
func (b *Base) Authenticate(ctx context.Context, login broker.Login) (broker.User, error) {
	if login.Password == "" || len(login.Password) > MaxPassword {
		return broker.User{}, broker.ErrInvalidCredentials // the same for all users
	}
	var u row
	if checkUsername(login.Username) == nil { // an impossible name needs no query
		var err error
		if u, err = b.read(ctx, "u.username", login.Username); err != nil && !errors.Is(err, broker.ErrNotFound) {
			return broker.User{}, err
		}
	}
	right, old, damaged := b.passwords.Verify(ctx, u.password, login.Password, login.Address)
	if damaged != nil && !errors.Is(damaged, password.ErrHash) {
		return broker.User{}, damaged
	}
	if damaged != nil {
		damaged = fmt.Errorf("stored password of user %s: %w", u.ID, damaged)
	}
	if !right || u.ended() {
		return broker.User{ID: u.ID}, errors.Join(broker.ErrInvalidCredentials, damaged)
	}
	if u.secret != "" {
		if err := b.checkSecond(ctx, &u, login.OTP); err != nil {
			if errors.Is(err, broker.ErrUnavailable) {
				return broker.User{}, err
			}
			return broker.User{ID: u.ID}, err
		}
	}
	if u.bad != nil { // only reported with the right password
		return broker.User{}, u.bad
	}
	if old {
		b.rehash(ctx, &u, login)
	}
	if u.MustChange {
		return u.User, broker.ErrPasswordChange
	}
	if u.lacksFactor() {
		return u.User, broker.ErrEnrolmentRequired
	}
	return u.User, nil
}

// User implements broker.Users.
func (b *Base) User(ctx context.Context, id string) (broker.User, error) {
	if checkUsername(id) != nil { // no id has this form
		return broker.User{}, broker.ErrNotFound
	}
	u, err := b.read(ctx, "u.id", id)
	if err != nil {
		return broker.User{}, err
	}
	return u.answer()
}

// answer returns the result of User for a row.
func (u *row) answer() (broker.User, error) {
	switch {
	case u.ended(): // takes precedence
		return broker.User{}, broker.ErrDisabled
	case u.bad != nil:
		return broker.User{}, u.bad
	case u.lacksFactor():
		return broker.User{}, broker.ErrEnrolmentRequired
	}
	return u.User, nil
}

// ended reports whether an account is disabled or has expired.
func (u *row) ended() bool {
	return u.Disabled || u.Ended(time.Now())
}

// lacksFactor reports whether a group requires a second factor that the user does not have.
func (u *row) lacksFactor() bool {
	return !u.SecondFactor && slices.ContainsFunc(u.Groups, func(g Group) bool { return g.RequiredFactor })
}

// Entry is a user with its groups, for the command line. The rights of its User include those of
// its groups.
type Entry struct {
	broker.User
	Own          Rights
	Groups       []Group // by name
	Disabled     bool
	SecondFactor bool
	FactorLocked bool // a new password is needed, see broker.ErrFactorLocked
	MustChange   bool // the password must be changed before a login
	Unreadable   bool // its rights cannot be decoded
	Created      time.Time
}

// row is an Entry with its secrets.
type row struct {
	Entry
	password string // in a format of package password
	secret   string // encrypted, of the second factor; "": none
	bad      error  // its rights cannot be decoded; wraps broker.ErrBadUser
}

const selectUsers = `
	SELECT u.id, u.username, u.password, u.disabled, u.scopes, u.entitlements, u.limits, u.version, u.created_at,
		u.networks, u.expires_at, u.must_change,
		COALESCE(f.secret, ''), COALESCE(f.wrong, 0), g.name, g.scopes, g.entitlements, g.limits, g.networks, COALESCE(g.required_factor, FALSE)
	FROM users u
	LEFT JOIN second_factors f ON f.user_id = u.id
	LEFT JOIN user_groups m ON m.user_id = u.id
	LEFT JOIN groups g ON g.name = m.group_name`

// read reads a user by a unique column. One statement includes the groups, so that rights are
// consistent.
func (b *Base) read(ctx context.Context, column, value string) (row, error) {
	list, err := b.users(ctx, selectUsers+` WHERE `+column+` = ? ORDER BY g.name`, value)
	if err != nil {
		return row{}, unavailable("read a user", err)
	}
	if len(list) == 0 {
		return row{}, broker.ErrNotFound
	}
	return list[0], nil
}

// users reads users from rows that are sorted by user, with one row for each group.
func (b *Base) users(ctx context.Context, query string, args ...any) ([]row, error) {
	ctx, cancel := b.sql.limit(ctx, askLimit)
	defer cancel()
	rows, err := b.reader.QueryContext(ctx, b.sql.rebind(query), args...)
	if err != nil {
		return nil, err
	}
	all, err := scanAll(rows, func() (row, error) { return scanUser(rows) })
	if err != nil {
		return nil, err
	}
	list := all[:0]
	for _, u := range all {
		if n := len(list); n > 0 && list[n-1].ID == u.ID {
			list[n-1].Groups = append(list[n-1].Groups, u.Groups...)
			list[n-1].bad = cmp.Or(list[n-1].bad, u.bad)
			continue
		}
		list = append(list, u)
	}
	for i := range list {
		u := &list[i]
		u.Unreadable = u.bad != nil
		effective := union(u.Own, u.Groups)
		u.Scopes, u.Entitlements, u.Limits, u.Networks = effective.Scopes, effective.Entitlements, effective.Limits, effective.Networks
	}
	return list, nil
}

func scanUser(from interface{ Scan(...any) error }) (u row, err error) {
	var created, expires int64
	var wrong int
	var own storedRights
	var name, scopes, entitlements, limits, networks sql.NullString
	var requiredFactor bool
	err = from.Scan(&u.ID, &u.Username, &u.password, &u.Disabled, &own[0], &own[1], &own[2], &u.Version, &created,
		&own[3], &expires, &u.MustChange, &u.secret, &wrong, &name, &scopes, &entitlements, &limits, &networks, &requiredFactor)
	if err != nil {
		return row{}, err
	}
	u.Created = time.Unix(created, 0).UTC()
	if expires != 0 {
		u.Expires = time.Unix(expires, 0).UTC()
	}
	u.SecondFactor, u.FactorLocked = u.secret != "", wrong >= maxWrongOTPs
	if err := u.Own.decode(own); err != nil {
		u.bad = fmt.Errorf("%w: %s: %w", broker.ErrBadUser, u.ID, err)
	}
	if name.Valid {
		g := Group{Name: name.String, RequiredFactor: requiredFactor}
		if err := g.decode(storedRights{scopes.String, entitlements.String, limits.String, networks.String}); err != nil {
			u.bad = fmt.Errorf("%w: %s: group %s: %w", broker.ErrBadUser, u.ID, g.Name, err)
		}
		u.Groups = []Group{g}
	}
	return u, nil
}

// scanAll scans the remaining rows and closes them. The list is empty, not nil, if there are none.
func scanAll[T any](rows *sql.Rows, scan func() (T, error)) (list []T, err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	list = []T{}
	for rows.Next() {
		v, err := scan()
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, rows.Err()
}

// ListAccounts implements broker.Accounts. Accounts are ordered by number.
func (b *Base) ListAccounts(ctx context.Context, userID string) ([]broker.Account, error) {
	if userID != "" && checkUsername(userID) != nil {
		return []broker.Account{}, nil
	}
	ctx, cancel := b.sql.limit(ctx, askLimit)
	defer cancel()
	rows, err := b.reader.QueryContext(ctx, b.sql.rebind(`
		SELECT id, number, name, type, status, currency, currencies, roles, permissions, is_default, created_at
		FROM accounts WHERE user_id = ? ORDER BY number`), userID)
	if err != nil {
		return nil, unavailable("list accounts", err)
	}
	list, err := scanAll(rows, func() (a broker.Account, err error) {
		var created int64
		err = rows.Scan(&a.ID, &a.Number, &a.Name, &a.Type, &a.Status, &a.Currency,
			asJSON{&a.Currencies}, asJSON{&a.Roles}, asJSON{&a.Permissions}, &a.IsDefault, &created)
		a.CreatedAt = time.Unix(created, 0).UTC()
		return a, err
	})
	if err != nil {
		return nil, unavailable("list accounts", err)
	}
	return list, nil
}

// unavailable wraps a database error, so that callers need not know databases.
func unavailable(what string, err error) error {
	return fmt.Errorf("%w: %s: %w", broker.ErrUnavailable, what, err)
}

// asJSON scans a column with JSON.
type asJSON struct{ to any }

func (j asJSON) Scan(from any) error {
	text, ok := from.(string)
	if !ok {
		return fmt.Errorf("a %T where JSON was expected", from)
	}
	return json.Unmarshal([]byte(text), j.to)
}
