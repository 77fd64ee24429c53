package ldapusers

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/go-ldap/ldap/v3"

	"github.com/ruedahq/rueda/broker"
)

// link is a connection to the directory.
type ldapConn struct {
	*ldap.Conn
	raw net.Conn
}

// close closes the connection. The library's Close waits for a write that may block, except if the
// connection below it is closed.
func (l *ldapConn) close() {
	_ = l.raw.Close()
	_ = l.Close()
}

// pool keeps connections of one kind.
type pool struct {
	dial  func(ctx context.Context) (*ldapConn, error)
	slots chan struct{} // one value for each connection in use
	idle  chan *ldapConn
}

func newPool(n int, dial func(context.Context) (*ldapConn, error)) *pool {
	return &pool{dial: dial, slots: make(chan struct{}, n), idle: make(chan *ldapConn, n)}
}

// do calls f with a connection. If a kept connection turns out to be closed, it calls f again with
// a new one.
func (p *pool) do(ctx context.Context, f func(*ldapConn) error) error {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return unavailable("wait for a connection", ctx.Err())
	}
	defer func() { <-p.slots }()
	for {
		l, kept, err := p.take(ctx)
		if err != nil {
			return unavailable("connect to the directory", err)
		}
		err = p.use(ctx, l, f)
		switch {
		case !isBroken(err) && ctx.Err() == nil:
			p.idle <- l // does not block: there are at most cap(slots) connections
			return err
		case kept && isBroken(err) && ctx.Err() == nil:
			l.close()
			continue
		}
		l.close()
		switch {
		case isBroken(err) && ctx.Err() != nil: // the canceled context closed it
			return unavailable("ask the directory", ctx.Err())
		case isBroken(err):
			return unavailable("ask the directory", err)
		}
		return err
	}
}

// use calls f and closes the connection if ctx ends first.
func (p *pool) use(ctx context.Context, l *ldapConn, f func(*ldapConn) error) error {
	stop := context.AfterFunc(ctx, func() { _ = l.raw.Close() })
	defer stop()
	return f(l)
}

func (p *pool) take(ctx context.Context) (l *ldapConn, kept bool, err error) {
	select {
	case l = <-p.idle:
		return l, true, nil
	default:
	}
	l, err = p.dial(ctx)
	return l, false, err
}

// close closes idle connections.
func (p *pool) close() {
	for {
		select {
		case l := <-p.idle:
			l.close()
		default:
			return
		}
	}
}

// isBroken reports whether an error, one that is not a response of the directory, makes the
// connection unusable.
func isBroken(err error) bool {
	if err == nil || errors.Is(err, broker.ErrInvalidCredentials) {
		return false
	}
	var e *ldap.Error
	return !errors.As(err, &e) || e.ResultCode >= ldap.ErrorNetwork || e.ResultCode == ldap.LDAPResultUnavailable
}

func unavailable(what string, err error) error {
	return fmt.Errorf("%w: %s: %w", broker.ErrUnavailable, what, err)
}
