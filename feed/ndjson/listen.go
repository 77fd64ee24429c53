package ndjson

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// unixPrefix begins the address of a Unix socket.
const unixPrefix = "unix:"

// parseListen sets the address of the Source.
func (s *Source) parseListen(c *Config) error {
	path, isUnix := strings.CutPrefix(c.Listen, unixPrefix)
	if isUnix {
		if path == "" || len(filepath.Dir(path)) > maxSocketFolder {
			return fmt.Errorf("ndjson: address %q is not unix:PATH with a folder of at most %d bytes", c.Listen, maxSocketFolder)
		}
		s.socket = path
		return nil
	}
	address, err := net.ResolveTCPAddr("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("ndjson: address %q: %w", c.Listen, err)
	}
	if c.TLS == nil && !c.Insecure && !address.IP.IsLoopback() {
		return fmt.Errorf("ndjson: address %q is not a loopback address, so others could read the token and change prices: use TLS or 127.0.0.1, or set insecure", c.Listen)
	}
	s.address = address.String()
	return nil
}

// checkSecrets refuses a configuration that lets every program that can connect publish prices.
func (c *Config) checkSecrets(isUnix bool) error {
	certificates := c.TLS != nil && c.TLS.ClientAuth == tls.RequireAndVerifyClientCert
	switch {
	case c.Token == "" && !certificates && !isUnix && !c.Anonymous:
		return errors.New("ndjson: a token is missing, so any program that can connect could publish any price: set token_file or token_env, require client certificates, or listen on a Unix socket")
	case c.Token != "" && len(c.Token) < MinToken:
		return fmt.Errorf("ndjson: the token has fewer than %d characters", MinToken)
	}
	return nil
}

func (s *Source) open(ctx context.Context) (net.Listener, error) {
	config := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3,
	}}
	if s.socket != "" {
		return listenUnix(ctx, s.socket)
	}
	listener, err := config.Listen(ctx, "tcp", s.address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("ndjson: %w: use another port than that of %s, or 0 for any free port", err, s.address)
	case err != nil:
		return nil, fmt.Errorf("ndjson: %w", err)
	}
	return listener, nil
}

// maxSocketFolder is the maximum length of the folder of a Unix socket, because the address of a
// socket has about 100 bytes.
const maxSocketFolder = 80

// listenUnix listens on a Unix socket that only the owner may use. It creates the socket in a
// private folder and moves it to its place when it has its mode. The file of a process that was
// killed is replaced.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("ndjson: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("ndjson: %s exists and is not a socket", path)
	default:
		dialer := net.Dialer{Timeout: time.Second}
		if conn, err := dialer.DialContext(ctx, "unix", path); err == nil {
			_ = conn.Close() // nothing was written to it
			return nil, fmt.Errorf("ndjson: listen unix %s: %w", path, syscall.EADDRINUSE)
		}
	}
	private, err := os.MkdirTemp(filepath.Dir(path), ".feed-")
	if err != nil {
		return nil, fmt.Errorf("ndjson: %w", err)
	}
	defer func() { _ = os.RemoveAll(private) }() // an empty folder may remain
	name := filepath.Join(private, "s")
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", name)
	if err != nil {
		return nil, fmt.Errorf("ndjson: %w", err)
	}
	if socket, ok := listener.(*net.UnixListener); ok {
		socket.SetUnlinkOnClose(false) // its name changes
	}
	if err := errors.Join(os.Chmod(name, 0o600), os.Rename(name, path)); err != nil {
		return nil, fmt.Errorf("ndjson: %w", errors.Join(err, listener.Close()))
	}
	return &unixListener{Listener: listener, path: path}, nil
}

// unixListener removes its socket when it is closed.
type unixListener struct {
	net.Listener
	path   string
	remove sync.Once
}

// Addr implements net.Listener.
func (l *unixListener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

// Close implements net.Listener.
func (l *unixListener) Close() error {
	err := l.Listener.Close()
	l.remove.Do(func() { err = errors.Join(err, os.Remove(l.path)) })
	return err
}
