package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// ErrInsecure means that other machines can reach the address although TLS is not configured.
var ErrInsecure = errors.New("plain HTTP would send passwords and tokens unencrypted")

// defaultListen is the default of Config.Listen.
const defaultListen = "127.0.0.1:8080"

// checkAddress checks Config.Listen before it is opened. Without TLS and Insecure it refuses an IP
// address that other machines can reach.
func checkAddress(cfg *Config) error {
	host, port, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen on %q: not of the form host:port: %w", cfg.Listen, err)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return fmt.Errorf("listen on %q: %q is not a port from 0 to 65535", cfg.Listen, port)
	}
	if cfg.Insecure || cfg.TLS != (TLS{}) {
		return nil
	}
	a, err := netip.ParseAddr(host)
	if host == "" || err == nil && !a.Unmap().IsLoopback() {
		return fmt.Errorf("listen on %s: %w", cfg.Listen, ErrInsecure)
	}
	return nil
}

// open listens on Config.Listen, on the event loop of the sockets if the system supports it. The
// returned listener accepts connections for net/http.
func (g *Gateway) open(ctx context.Context) (net.Listener, error) {
	mayBeOpen := g.cfg.Insecure || g.certificate != nil
	var secure *tls.Config
	if g.certificate != nil {
		secure = g.certificate.Config()
	}
	if secure == nil || !g.cfg.Stream.TLSByGoroutines {
		a, err := g.sockets.Listen(ctx, g.cfg.Listen, secure)
		switch {
		case err == nil && !mayBeOpen && !isLoopback(a):
			ended, end := context.WithCancel(ctx)
			end()
			return nil, errors.Join(fmt.Errorf("listen on %s: %w", g.cfg.Listen, ErrInsecure), g.sockets.Run(ended))
		case !errors.Is(err, errors.ErrUnsupported):
			return g.sockets.Requests(), err
		}
	}
	l, err := listen(ctx, g.cfg.Listen, mayBeOpen)
	if err != nil || secure == nil {
		return l, err
	}
	return g.sockets.TLSListener(l, secure), nil
}

// listen listens on the address without the event loop. If mayBeOpen is false, it refuses an
// address that other machines can reach.
func listen(ctx context.Context, address string, mayBeOpen bool) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	// A name may resolve to any address, so the bound address is checked.
	if !mayBeOpen && !isLoopback(l.Addr()) {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", address, ErrInsecure), l.Close())
	}
	return l, nil
}

func isLoopback(a net.Addr) bool {
	p, err := netip.ParseAddrPort(a.String())
	return err == nil && p.Addr().Unmap().IsLoopback()
}
