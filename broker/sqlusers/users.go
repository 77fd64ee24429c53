package sqlusers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/guard"
	"github.com/ruedahq/rueda/broker/password"
)

// Config configures Users. Driver and Source are required, and so are Login and User, or Accounts;
// other fields state their default.
type Config struct {
	Driver string // SQLite or Postgres
	Source string // file or connection string, which may contain a password

	Login    string // query by username
	User     string // query by id
	Accounts string // query by user id; "": no accounts

	Rights broker.Rights            // of all users
	Groups map[string]broker.Rights // of the members of a group, by name

	Passwords   *password.Checker // one of password.Config{}
	Guard       *guard.Guard      // for the queries; nil: none
	Connections int               // maximum: 8
	Logger      *slog.Logger      // for users who cannot log in because of their record; nil: discarded
}

// Users reads users and accounts from a database.
type Users struct {
	database   database
	rights     broker.Rights
	groups     map[string]broker.Rights
	passwords  *password.Checker
	guard      *guard.Guard
	badRecords badRecordLog

	login, user, accounts *query // nil: not configured

	decoys *decoyHashes // for unknown users
}

// Limits of query values, in bytes, and of rows.
const (
	maxUsername = 128
	maxID       = 64
	maxAccounts = 1000
)

// Open returns Users. It does not use the database; Check does.
func Open(cfg Config) (*Users, error) {
	if cfg.Login == "" != (cfg.User == "") {
		return nil, errors.New("the queries login and user go together")
	}
	if cfg.Login == "" && cfg.Accounts == "" {
		return nil, errors.New("there is no query")
	}
	if cfg.Connections <= 0 {
		cfg.Connections = 8
	}
	if cfg.Passwords == nil {
		cfg.Passwords = password.New(password.Config{})
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	db, err := open(cfg.Driver, cfg.Source, cfg.Connections)
	if err != nil {
		return nil, err
	}
	if err := CheckQueries(cfg); err != nil {
		return nil, errors.Join(err, db.close())
	}
	u := &Users{
		database: db, rights: cfg.Rights, groups: cfg.Groups, passwords: cfg.Passwords, guard: cfg.Guard,
		badRecords: badRecordLog{log: cfg.Logger}, decoys: newDecoyHashes(),
	}
	u.login, u.user, u.accounts = cfg.queries()
	return u, nil
}

// CheckQueries checks the texts of the queries. It returns a *QueryError for each invalid one,
// joined.
func CheckQueries(cfg Config) error {
	if cfg.Driver != SQLite && cfg.Driver != Postgres {
		return nil // unknown syntax
	}
	var errs []error
	login, user, accounts := cfg.queries()
	for _, q := range []*query{login, user, accounts} {
		if q != nil {
			errs = append(errs, q.checkText(cfg.Driver))
		}
	}
	return errors.Join(errs...)
}

func (c *Config) queries() (login, user, accounts *query) {
	required := strings.Fields("id username version")
	optional := strings.Fields("disabled scopes entitlements limits groups networks expires_at")
	if c.Login != "" {
		login = &query{name: "login", text: c.Login, parameter: "username", required: slices.Concat(required, []string{"password_hash"}), optional: optional}
	}
	if c.User != "" {
		user = &query{name: "user", text: c.User, parameter: "id", required: required, optional: slices.Concat(optional, []string{"password_hash"})}
	}
	if c.Accounts != "" {
		accounts = &query{
			name: "accounts", text: c.Accounts, parameter: "user_id",
			required: strings.Fields("account_id number type status currency"),
			optional: strings.Fields("name currencies roles permissions is_default created_at"),
		}
	}
	return login, user, accounts
}

func (u *Users) queries() []*query {
	return slices.DeleteFunc([]*query{u.login, u.user, u.accounts}, func(q *query) bool { return q == nil })
}

// Close closes the connections.
func (u *Users) Close() error { return u.database.close() }

// Guard returns the guard of the queries, for its state; nil: none.
func (u *Users) Guard() *guard.Guard { return u.guard }

// Check prepares each query in the database. It returns a *QueryError for each invalid one, joined;
// the error wraps broker.ErrUnavailable if the database does not answer.
func (u *Users) Check(ctx context.Context) error {
	if err := u.database.check(ctx); err != nil {
		return err
	}
	var errs []error
	for _, q := range u.queries() {
		columns, err := u.database.columns(ctx, q)
		if err == nil {
			err = q.checkColumns(columns)
		}
		if err != nil {
			errs = append(errs, &QueryError{q.name, err})
		}
	}
	return errors.Join(errs...)
}

// Authenticate implements broker.Users. Checks that can fail are made after the hash, so that all
// logins take the same time.
func (u *Users) Authenticate(ctx context.Context, login broker.Login) (broker.User, error) {
	if login.Password == "" || len(login.Password) > password.MaxLength {
		return broker.User{}, broker.ErrInvalidCredentials // the same for all users
	}
	p, wrong := u.find(ctx, u.login, login.Username, maxUsername)
	if wrong != nil && errors.Is(wrong, broker.ErrUnavailable) {
		return broker.User{}, wrong
	}
	if wrong == nil && !broker.SameName(p.Username, login.Username) {
		p, wrong = person{}, broker.ErrNotFound // the query treats different names as equal
	}
	stored := p.hash
	if stored == "" {
		stored = u.decoys.of(login.Username)
	}
	right, _, err := u.passwords.Verify(ctx, stored, login.Password, login.Address)
	if err != nil && errors.Is(err, broker.ErrUnavailable) {
		return broker.User{}, err
	}
	if err == nil && p.hash != "" {
		u.decoys.note(p.ID, p.hash)
	}
	switch {
	case wrong != nil && !errors.Is(wrong, broker.ErrNotFound):
		u.badRecords.report(p.ID, wrong)
		return broker.User{}, wrong
	case err != nil && !p.disabled:
		err = fmt.Errorf("%w: the hash of user %s: %w", broker.ErrInvalidCredentials, p.ID, err)
		u.badRecords.report(p.ID, err)
		return broker.User{ID: p.ID}, err
	case wrong != nil || err != nil || !right || p.hash == "" || p.disabled:
		return broker.User{ID: p.ID}, broker.ErrInvalidCredentials
	}
	return p.User, nil
}

// User implements broker.Users.
func (u *Users) User(ctx context.Context, id string) (broker.User, error) {
	p, err := u.find(ctx, u.user, id, maxID)
	switch {
	case errors.Is(err, broker.ErrInvalidCredentials): // invalid rows
		u.badRecords.report(p.ID, err)
		return broker.User{}, fmt.Errorf("%w: %s", broker.ErrBadUser, strings.TrimPrefix(err.Error(), broker.ErrInvalidCredentials.Error()+": "))
	case err != nil:
		return broker.User{}, err
	case p.disabled:
		return broker.User{}, broker.ErrDisabled
	case p.ID != id:
		return broker.User{}, broker.ErrNotFound // the query for 017 returned 17
	}
	return p.User, nil
}

// Groups returns the groups of a user.
func (u *Users) Groups(ctx context.Context, id string) (list []broker.Membership, err error) {
	p, err := u.find(ctx, u.user, id, maxID)
	if err != nil {
		return nil, err
	}
	for _, name := range p.groups {
		_, granted := u.groups[name]
		list = append(list, broker.Membership{Group: name, Granted: granted})
	}
	return list, nil
}

// ListAccounts implements broker.Accounts.
func (u *Users) ListAccounts(ctx context.Context, userID string) ([]broker.Account, error) {
	list := []broker.Account{}
	if u.accounts == nil || !isText(userID, maxID) {
		return list, nil
	}
	rows, err := u.ask(ctx, u.accounts, userID, maxAccounts+1)
	switch {
	case errors.Is(err, broker.ErrNotFound):
		return list, nil
	case err != nil:
		return nil, err
	case len(rows) > maxAccounts:
		return nil, fmt.Errorf("%w: a user has more than %d accounts", broker.ErrUnavailable, maxAccounts)
	}
	for _, r := range rows {
		a, err := r.account()
		if err != nil {
			return nil, fmt.Errorf("%w: query accounts: %w", broker.ErrUnavailable, err)
		}
		list = append(list, a)
	}
	return list, nil
}

// person is a decoded row of a user.
type person struct {
	broker.User
	hash     string
	disabled bool
	groups   []string
}

func isText(s string, most int) bool {
	return s != "" && len(s) <= most && utf8.ValidString(s) && !strings.Contains(s, "\x00")
}

// find returns the row of one user. ErrInvalidCredentials means that there are several rows, or
// that the row is invalid. The person then has an id if it is known.
func (u *Users) find(ctx context.Context, q *query, value string, most int) (person, error) {
	if q == nil || !isText(value, most) {
		return person{}, broker.ErrNotFound
	}
	rows, err := u.ask(ctx, q, value, 2)
	switch {
	case err != nil:
		return person{}, err
	case len(rows) == 0:
		return person{}, broker.ErrNotFound
	case len(rows) > 1:
		return person{}, fmt.Errorf("%w: query %s gives several rows, so that none is taken", broker.ErrInvalidCredentials, q.name)
	}
	p, err := rows[0].person()
	if err == nil {
		err = p.Check()
	}
	if err == nil {
		u.grant(&p)
		err = p.Check() // groups may have added too much
	}
	if err != nil {
		return person{User: broker.User{ID: p.ID}}, fmt.Errorf("%w: query %s: %w", broker.ErrInvalidCredentials, q.name, err)
	}
	p.disabled = p.disabled || p.Ended(time.Now())
	return p, nil
}

func (u *Users) grant(p *person) {
	p.Grant(u.rights)
	for _, name := range p.groups {
		p.Grant(u.groups[name])
	}
}

// ask runs a query and returns at most limit rows.
func (u *Users) ask(ctx context.Context, q *query, value string, limit int) ([]row, error) {
	ask := func(ctx context.Context) ([]row, error) { return u.database.ask(ctx, q, value, limit) }
	if u.guard == nil {
		return ask(ctx)
	}
	return guard.Call(ctx, u.guard, ask)
}
