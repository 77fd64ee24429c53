package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"sync/atomic"
	"time"
)

// TLS are the files of a certificate, in PEM. The zero TLS is plain HTTP.
type TLS struct {
	Certificate string        // chain, the server's own first
	Key         string        // its private key; nobody but the owner and the group may read it
	Reload      time.Duration // how often the files are looked at for a change; 0: 10 s
}

// certificate is a key pair that is read again when its files change. Renewal
// tools replace two files one after the other: until both fit together, and
// whatever else may be wrong with them (expired ones are, too), the old pair stays in use.
type certificate struct {
	cfg  TLS
	log  *slog.Logger
	pair atomic.Pointer[tls.Certificate]
	told func(ctx context.Context, until time.Time) // of one that was taken into use while it runs; nil: nobody

	// What was read last, good or bad. Owned by whoever calls load, one at a time.
	chain, key []byte
}

func newCertificate(cfg TLS, log *slog.Logger) (*certificate, error) {
	if cfg.Certificate == "" || cfg.Key == "" {
		return nil, errors.New("TLS needs both a certificate and a key file")
	}
	if cfg.Reload <= 0 {
		cfg.Reload = 10 * time.Second
	}
	c := &certificate{cfg: cfg, log: log}
	if _, err := c.load(); err != nil {
		return nil, err
	}
	return c, nil
}

// load reads the files and says whether they hold something new.
func (c *certificate) load() (changed bool, err error) {
	chain, err := os.ReadFile(c.cfg.Certificate)
	if err != nil {
		return false, fmt.Errorf("read the TLS certificate: %w", err)
	}
	key, err := readPrivate(c.cfg.Key)
	if err != nil {
		return false, fmt.Errorf("read the TLS key: %w", err)
	}
	if bytes.Equal(chain, c.chain) && bytes.Equal(key, c.key) {
		return false, nil
	}
	c.chain, c.key = chain, key
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return false, fmt.Errorf("read the TLS certificate %s with the key %s: %w", c.cfg.Certificate, c.cfg.Key, err)
	}
	if end := pair.Leaf.NotAfter; c.pair.Load() != nil && time.Now().After(end) {
		return false, fmt.Errorf("read the TLS certificate %s: it expired at %v", c.cfg.Certificate, end)
	}
	c.pair.Store(&pair)
	return true, nil
}

// readPrivate reads a file with a secret, and refuses one that everybody may read.
func readPrivate(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o007 != 0 && runtime.GOOS != "windows" {
		return nil, &fs.PathError{Op: "open", Path: name,
			Err: fmt.Errorf("mode %04o lets every user of this machine at it: chmod 640 it", mode)}
	}
	return os.ReadFile(name)
}

// Run looks for changes until ctx ends.
func (c *certificate) Run(ctx context.Context) error {
	tick := time.NewTicker(c.cfg.Reload)
	defer tick.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		changed, err := c.load()
		switch {
		case err != nil && err.Error() != last:
			last = err.Error()
			c.log.Error("certificate not reloaded, the one before stays in use", "error", err)
		case changed:
			last = ""
			until := c.pair.Load().Leaf.NotAfter
			c.log.Info("certificate reloaded", "expires", until)
			if c.told != nil {
				c.told(ctx, until)
			}
		}
	}
}

// config is HTTP/1.1 alone: a stream is an upgrade, which HTTP/2 does not have.
func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.pair.Load(), nil
		},
	}
}
