package local

import (
	"context"
	"database/sql"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"sync"
	"time"

	"github.com/pressly/goose/v3"
	"golang.org/x/crypto/argon2"

	"github.com/ruedahq/rueda/broker"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Config is what a Base is made of. Writer is needed; the zero value of every
// other field means the default named with it.
type Config struct {
	Writer *sql.DB // SQLite; one connection (SetMaxOpenConns(1)), which Watch relies on
	Reader *sql.DB // Writer

	Slots     int           // passwords checked at once: one fewer than GOMAXPROCS, but one
	Queue     int           // how many may wait for a slot: 64 a slot
	QueueWait time.Duration // how long: 2 s
}

// Base is the user base.
type Base struct {
	writer *sql.DB
	reader *sql.DB
	slots  *slots
	kdf    kdf

	garbage garbage

	mu      sync.Mutex
	changed chan struct{} // closed and replaced by each change that this process makes
}

// Open makes a Base and brings its tables up to date.
func Open(ctx context.Context, cfg Config) (*Base, error) {
	if cfg.Writer == nil {
		return nil, errors.New("user base: a database is needed")
	}
	if cfg.Reader == nil {
		cfg.Reader = cfg.Writer
	}
	if cfg.Slots <= 0 {
		cfg.Slots = max(1, runtime.GOMAXPROCS(0)-1)
	}
	if cfg.Queue <= 0 {
		cfg.Queue = 64 * cfg.Slots
	}
	if cfg.QueueWait <= 0 {
		cfg.QueueWait = 2 * time.Second
	}
	if err := migrate(ctx, cfg.Writer); err != nil {
		return nil, fmt.Errorf("user base: %w", err)
	}
	return &Base{
		writer:  cfg.Writer,
		reader:  cfg.Reader,
		slots:   newSlots(cfg.Slots, cfg.Queue, cfg.QueueWait),
		kdf:     argon2.IDKey,
		changed: make(chan struct{}),
	}, nil
}

// migrateTries is for the case that another process migrates the same file at this
// moment: whoever comes second fails, and finds it done on looking again.
const migrateTries = 4

func migrate(ctx context.Context, db *sql.DB) (err error) {
	for range migrateTries {
		if err = migrateOnce(ctx, db); err == nil {
			return nil
		}
	}
	return err
}

func migrateOnce(ctx context.Context, db *sql.DB) error {
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, dir, goose.WithTableName("users_version"), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	current, target, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	if current > target {
		return fmt.Errorf("schema version %d is newer than this program, which knows %d: run the newer program", current, target)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("bring schema up to date: %w", err)
	}
	return nil
}

// Authenticate implements broker.Users. The checks that fail come after the hash,
// so that they all take the same time.
func (b *Base) Authenticate(ctx context.Context, login broker.Login) (broker.User, error) {
	if login.Password == "" || len(login.Password) > MaxPassword {
		return broker.User{}, broker.ErrInvalidCredentials // true of every user alike
	}
	u, err := b.read(ctx, "username", login.Username)
	unknown := errors.Is(err, broker.ErrNotFound)
	if err != nil && !unknown {
		return broker.User{}, err
	}
	hash, damaged := dummyHash(), error(nil)
	if !unknown {
		if stored, err := parseHash(u.password); err == nil {
			hash = stored
		} else {
			damaged = fmt.Errorf("stored password of user %s: %w", u.ID, err)
		}
	}
	right, err := b.check(ctx, hash, login.Password)
	if err != nil {
		return broker.User{}, err
	}
	if unknown || !right || u.Disabled {
		return broker.User{}, errors.Join(broker.ErrInvalidCredentials, damaged)
	}
	return u.User, nil
}

// check computes a hash in a slot. Once it has one it ends, whatever becomes of
// ctx: whoever hangs up early does not learn sooner, and is charged the same.
func (b *Base) check(ctx context.Context, hash passwordHash, password string) (bool, error) {
	if err := b.slots.acquire(ctx); err != nil {
		return false, err
	}
	defer b.slots.release()
	right := hash.matches(b.kdf, password)
	b.garbage.add(uint64(hash.memory) << 10)
	return right, nil
}

// User implements broker.Users.
func (b *Base) User(ctx context.Context, id string) (broker.User, error) {
	u, err := b.read(ctx, "id", id)
	if err != nil {
		return broker.User{}, err
	}
	if u.Disabled {
		return broker.User{}, broker.ErrDisabled
	}
	return u.User, nil
}

// Entry is a user as the command line lists it.
type Entry struct {
	broker.User
	Disabled bool
	Created  time.Time
}

type row struct {
	Entry
	password string // PHC
}

const userColumns = `id, username, password, disabled, scopes, entitlements, limits, version, created_at`

// read finds a user by a column that is unique.
func (b *Base) read(ctx context.Context, column, value string) (row, error) {
	u, err := scanUser(b.reader.QueryRowContext(ctx, `SELECT `+userColumns+` FROM users WHERE `+column+` = ?`, value))
	if errors.Is(err, sql.ErrNoRows) {
		return row{}, broker.ErrNotFound
	}
	if err != nil {
		return row{}, unavailable("read a user", err)
	}
	return u, nil
}

// List returns all users by username, the disabled too.
func (b *Base) List(ctx context.Context) ([]Entry, error) {
	rows, err := b.reader.QueryContext(ctx, `SELECT `+userColumns+` FROM users ORDER BY username`)
	if err != nil {
		return nil, unavailable("list users", err)
	}
	list, err := scanAll(rows, func() (Entry, error) {
		u, err := scanUser(rows)
		return u.Entry, err
	})
	if err != nil {
		return nil, unavailable("list users", err)
	}
	return list, nil
}

// scanAll reads what is left of rows and closes them. None is an empty list.
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

func scanUser(from interface{ Scan(...any) error }) (u row, err error) {
	var created int64
	err = from.Scan(&u.ID, &u.Username, &u.password, &u.Disabled,
		asJSON{&u.Scopes}, asJSON{&u.Entitlements}, asJSON{&u.Limits}, &u.Version, &created)
	if err != nil {
		return row{}, err
	}
	u.Created = time.Unix(created, 0).UTC()
	return u, nil
}

// ListAccounts implements broker.Accounts; accounts are ordered by number.
func (b *Base) ListAccounts(ctx context.Context, userID string) ([]broker.Account, error) {
	rows, err := b.reader.QueryContext(ctx, `
		SELECT id, number, name, type, status, currency, currencies, roles, permissions, is_default, created_at
		FROM accounts WHERE user_id = ? ORDER BY number`, userID)
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

// unavailable wraps what the database said, so that callers need not know databases.
func unavailable(what string, err error) error {
	return fmt.Errorf("%w: %s: %w", broker.ErrUnavailable, what, err)
}

// asJSON is a column that holds JSON.
type asJSON struct{ to any }

func (j asJSON) Scan(from any) error {
	text, ok := from.(string)
	if !ok {
		return fmt.Errorf("a %T where JSON was expected", from)
	}
	return json.Unmarshal([]byte(text), j.to)
}
