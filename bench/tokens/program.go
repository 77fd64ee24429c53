package tokens

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/ruedahq/rueda/bench/proc"
	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
)

// Config is the argument of "gateway" and "bare".
type Config struct {
	Folder    string // of the SQLite database
	Postgres  string // URL of a database instead
	Passwords bool   // users of the built-in base, with real password hashes
}

// Started is the answer: the address for requests.
type Started struct {
	Address string
	Limits  string // raised limits
}

// Users is the number of users: u0 and so on, with their names as passwords.
const passwordUsers = 64

type program struct {
	stop []func() error
}

// Run answers requests until in ends.
func Run(in io.Reader, out io.Writer) error {
	if _, err := proc.RaiseFiles(); err != nil {
		return err
	}
	p := &program{}
	err := proc.Serve(in, out, map[string]proc.Handler{
		"gateway": proc.Handle(p.gateway),
		"bare":    proc.Handle(p.bare),
		"ask":     proc.Handle(ask),
		"hash":    proc.Handle(hash),
		"store":   proc.Handle(storeRate),
		"verify":  proc.Handle(verify),
		"memory":  proc.Handle(memory),
	})
	for _, stop := range slices.Backward(p.stop) {
		err = errors.Join(err, stop())
	}
	return err
}

// gateway starts a gateway without a market.
func (p *program) gateway(c Config) (*Started, error) {
	ctx, cancel := context.WithCancel(context.Background())
	if err := p.ownDatabase(ctx, &c); err != nil {
		cancel()
		return nil, err
	}
	settings := gateway.DataConfig{Folder: c.Folder, Postgres: c.Postgres}
	if c.Postgres != "" { // it stores only encrypted keys
		settings.EncryptionKeyFile = filepath.Join(c.Folder, "encryption.key")
		err := os.MkdirAll(c.Folder, 0o700)
		if err == nil {
			err = keyset.MakeEncryptionKey(settings.EncryptionKeyFile)
		}
		if err != nil {
			cancel()
			return nil, err
		}
	}
	data, err := gateway.OpenData(ctx, settings)
	if err != nil {
		cancel()
		return nil, err
	}
	const many = 1_000_000
	bound := make(chan gateway.Bound, 1)
	cfg := gateway.Config{
		Listen: "127.0.0.1:0", Data: data, Drain: time.Millisecond,
		Auth: gateway.Auth{MaxSessions: 200}, // each user of the refreshes has a hundred
		Limits: gateway.Limits{LoginsPerMinute: many, LoginBurst: many, RequestsPerMinute: many, Logins: gateway.Logins{
			RefreshesPerMinute: many, RefreshBurst: many, UserRefreshesPerMinute: many, UserRefreshBurst: many,
			AccountLoginsPerMinute: many, AccountLoginBurst: many,
		}},
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		OnReady: func(b gateway.Bound) { bound <- b },
	}
	if c.Passwords {
		err = addUsers(ctx, data.Users)
	} else {
		cfg.Users = everybody{}
	}
	var g *gateway.Gateway
	if err == nil {
		g, err = gateway.New(ctx, cfg)
	}
	if err != nil {
		cancel()
		return nil, errors.Join(err, data.Close())
	}
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	p.stop = append(p.stop, func() error {
		cancel()
		return errors.Join(<-ended, data.Close())
	})
	select {
	case b := <-bound:
		return &Started{Address: b.Address, Limits: fmt.Sprintf("limits.logins_per_minute, login_burst, throttle.refreshes_per_minute, user_refreshes_per_minute, account_logins_per_minute and their bursts=%d", many)}, nil
	case err := <-ended:
		ended <- nil
		return nil, fmt.Errorf("the gateway ended: %w", err)
	}
}

// ownDatabase replaces the database of c by one of this program.
func (p *program) ownDatabase(ctx context.Context, c *Config) error {
	if c.Postgres == "" {
		return nil
	}
	to, drop, err := scratch(ctx, c.Postgres)
	if err != nil {
		return err
	}
	c.Postgres = to
	p.stop = append(p.stop, drop) // after its users
	return nil
}

func addUsers(ctx context.Context, users *local.Base) error {
	for i := range passwordUsers {
		name := fmt.Sprintf("u%d", i)
		if _, err := users.Add(ctx, local.NewUser{Username: name, Password: name, WeakPassword: true}); err != nil {
			return err
		}
	}
	return nil
}

// everybody is a user base of all names that begin with u; the password is the name.
type everybody struct{}

func (everybody) Authenticate(_ context.Context, login broker.Login) (broker.User, error) {
	if login.Username != login.Password || !strings.HasPrefix(login.Username, "u") {
		return broker.User{}, broker.ErrInvalidCredentials
	}
	return broker.User{ID: login.Username, Username: login.Username, Version: 1}, nil
}

func (everybody) User(_ context.Context, id string) (broker.User, error) {
	return broker.User{ID: id, Username: id, Version: 1}, nil
}

// Memory returns the memory of this process in bytes, now and at its peak.
type Memory struct{ Resident, Peak int64 }

func memory(struct{}) (*Memory, error) {
	runtime.GC()
	now, peak, err := proc.Memory(os.Getpid())
	return &Memory{now, peak}, err
}
