//go:build unix

package hostile

import (
	"context"
	"crypto/tls"
	"errors"
	"path/filepath"
	"sync"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/feed/ndjson"
	"github.com/ruedahq/rueda/gateway"
)

// feedToken is the secret of the producers.
const feedToken = "secret of the producers of the tests"

// lockedAfter is the number of wrong passwords after which the directory locks an account.
const lockedAfter = 5

// extra is what some attacks need of the gateway.
type extra struct {
	lines     *ndjson.Source // a feed for producers
	directory *directory
}

func newExtra(cfg *gateway.Config, data *gateway.Data) (more extra, err error) {
	c := ndjson.Config{Listen: "127.0.0.1:0", Token: feedToken, Logger: cfg.Logger}
	if cfg.TLS != (gateway.TLS{}) {
		pair, err := tls.LoadX509KeyPair(filepath.Clean(cfg.TLS.Certificate), filepath.Clean(cfg.TLS.Key))
		if err != nil {
			return more, err
		}
		c.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	if more.lines, err = ndjson.New(c); err != nil {
		return more, err
	}
	cfg.Feeds = append(cfg.Feeds, gateway.Feed{Name: "lines", Source: more.lines, Late: true})
	more.directory = &directory{Users: data.Users, wrong: map[string]int{}}
	cfg.Users, cfg.Accounts, cfg.WatchUsers = more.directory, data.Users, data.Users.Watch
	cfg.Limits.Logins.AccountFailures = lockedAfter - 2
	return more, more.lines.Listen(context.Background())
}

// directory is a user base that locks an account after wrong passwords, as company directories do.
type directory struct {
	broker.Users
	mu    sync.Mutex
	wrong map[string]int // in a row, by username
}

func (d *directory) Authenticate(ctx context.Context, login broker.Login) (broker.User, error) {
	if d.failures(login.Username) >= lockedAfter {
		return broker.User{}, broker.ErrInvalidCredentials
	}
	user, err := d.Users.Authenticate(ctx, login)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err == nil:
		d.wrong[login.Username] = 0
	case errors.Is(err, broker.ErrInvalidCredentials):
		d.wrong[login.Username]++
	}
	return user, err
}

func (d *directory) failures(name string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.wrong[name]
}
