// Package certificate serves a TLS certificate from two files and verifies the certificates of
// clients. It reads the files of both again when they change.
//
// # Concurrency
//
// A Certificate is safe for concurrent use. Run watches its files on one goroutine. Clients is
// safe for concurrent use. Its lock is held while all connections are verified again.
package certificate

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/internal/base/fileowner"
)

// Files names the files of a certificate, in PEM.
type Files struct {
	Certificate string        // the chain, the server's own certificate first
	Key         string        // its private key, which only the owner and the group may read
	Reload      time.Duration // interval between two checks for changes; 0: 10 s
	MinVersion  uint16        // oldest version of TLS, as in crypto/tls; 0: 1.2
}

const defaultReload = 10 * time.Second

// Certificate is a key pair that is reloaded when its files change. Renewal tools replace two
// files one after the other. The old pair stays in use until both files fit together and the
// new certificate is valid.
type Certificate struct {
	log  *slog.Logger
	pair atomic.Pointer[tls.Certificate]

	// OnReload is called by Run with the end of each new certificate; nil: no call. It is set
	// before Run.
	OnReload func(ctx context.Context, expires time.Time)

	mu    sync.Mutex // held while files are read
	files Files

	chain, key []byte // the last contents that were read, valid or not
}

// Load reads the files. The error says which file is missing, readable by everyone or invalid.
func Load(files Files, log *slog.Logger) (*Certificate, error) {
	if files.Certificate == "" || files.Key == "" {
		return nil, errors.New("TLS needs both a certificate and a key file")
	}
	if files.Reload <= 0 {
		files.Reload = defaultReload
	}
	c := &Certificate{files: files, log: log}
	if _, err := c.Reload(); err != nil {
		return nil, err
	}
	return c, nil
}

// SetFiles reads other files and uses their pair from then on. With an error nothing changes.
// Files.Reload and Files.MinVersion are ignored.
func (c *Certificate) SetFiles(ctx context.Context, files Files) error {
	next, err := Load(files, c.log)
	if err != nil {
		return err
	}
	if end := next.Expires(); time.Now().After(end) {
		return fmt.Errorf("read the TLS certificate %s: it expired at %v", files.Certificate, end)
	}
	c.mu.Lock()
	changed := !bytes.Equal(next.chain, c.chain) || !bytes.Equal(next.key, c.key)
	c.files, c.chain, c.key = Files{files.Certificate, files.Key, c.files.Reload, c.files.MinVersion}, next.chain, next.key
	c.pair.Store(next.pair.Load())
	c.mu.Unlock()
	if changed && c.OnReload != nil {
		c.OnReload(ctx, c.Expires())
	}
	return nil
}

// Expires returns the end of the certificate in use.
func (c *Certificate) Expires() time.Time { return c.pair.Load().Leaf.NotAfter }

// Reload reads the files and reports whether a new pair is in use.
func (c *Certificate) Reload() (changed bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	chain, err := os.ReadFile(c.files.Certificate)
	if err != nil {
		return false, fmt.Errorf("read the TLS certificate: %w", err)
	}
	key, err := readPrivate(c.files.Key)
	if err != nil {
		return false, fmt.Errorf("read the TLS key: %w", fileowner.Unreadable(err))
	}
	if bytes.Equal(chain, c.chain) && bytes.Equal(key, c.key) {
		return false, nil
	}
	c.chain, c.key = chain, key
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return false, fmt.Errorf("read the TLS certificate %s with the key %s: %w", c.files.Certificate, c.files.Key, err)
	}
	if end := pair.Leaf.NotAfter; c.pair.Load() != nil && time.Now().After(end) {
		return false, fmt.Errorf("read the TLS certificate %s: it expired at %v", c.files.Certificate, end)
	}
	c.pair.Store(&pair)
	return true, nil
}

// readPrivate reads a file with a secret. A file that everyone may read is an error.
func readPrivate(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o007 != 0 && runtime.GOOS != "windows" {
		return nil, &fs.PathError{Op: "open", Path: name,
			Err: fmt.Errorf("mode %04o lets every user of this machine read it: run chmod 640", mode)}
	}
	return os.ReadFile(name)
}

// Run reloads changed files until ctx ends. Errors are logged.
func (c *Certificate) Run(ctx context.Context) error {
	tick := time.NewTicker(c.files.Reload) // SetFiles does not change it
	defer tick.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		changed, err := c.Reload()
		switch {
		case err != nil && err.Error() != last:
			last = err.Error()
			c.log.Error("certificate not reloaded, keeping the old one", "error", err)
		case changed:
			last = ""
			c.log.Info("certificate reloaded", "expires", c.Expires())
			if c.OnReload != nil {
				c.OnReload(ctx, c.Expires())
			}
		}
	}
}

// Config returns a server configuration with the certificate in use, TLS 1.3 or, unless
// Files.MinVersion is higher, TLS 1.2 with AEAD and forward secrecy, and HTTP/1.1 only: HTTP/2
// cannot upgrade to a WebSocket.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		MinVersion: cmp.Or(c.files.MinVersion, tls.VersionTLS12),
		CipherSuites: []uint16{ // of TLS 1.2
			tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
			tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
		},
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.pair.Load(), nil
		},
	}
}
