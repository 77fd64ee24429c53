package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// ErrInsecure says that the address is not of this machine alone and that there is no TLS.
var ErrInsecure = errors.New("plain HTTP would carry passwords and tokens in the open")

// checkAddress finds what can be known to be wrong with the address before it is opened.
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

// listen opens the address, and refuses one that others can reach where nothing is encrypted.
func listen(ctx context.Context, address string, mayBeOpen bool) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	// A name may stand for any address: what was bound counts.
	if !mayBeOpen && !isLoopback(l.Addr()) {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", address, ErrInsecure), l.Close())
	}
	return l, nil
}

func isLoopback(a net.Addr) bool {
	p, err := netip.ParseAddrPort(a.String())
	return err == nil && p.Addr().Unmap().IsLoopback()
}
