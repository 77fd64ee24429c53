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
type link struct {
	*ldap.Conn
	raw net.Conn
}

// close ends the link. The library's own Close waits for a write that may hang; with the connection under it
// closed it does not.
func (l *link) close() {
	_ = l.raw.Close()
	_ = l.Close()
}

// pool keeps connections of one kind.
type pool struct {
	dial   func(ctx context.Context) (*link, error)
	places chan struct{} // holds one value a connection in use
	idle   chan *link
}

func newPool(n int, dial func(context.Context) (*link, error)) *pool {
	return &pool{dial: dial, places: make(chan struct{}, n), idle: make(chan *link, n)}
}

// do gives a connection to f. One that was kept may have ended since: then f is called again, with a new one.
func (p *pool) do(ctx context.Context, f func(*link) error) error {
	select {
	case p.places <- struct{}{}:
	case <-ctx.Done():
		return unavailable("wait for a connection", ctx.Err())
	}
	defer func() { <-p.places }()
	for {
		l, kept, err := p.take(ctx)
		if err != nil {
			return unavailable("connect to the directory", err)
		}
		err = p.use(ctx, l, f)
		switch {
		case !isBroken(err) && ctx.Err() == nil:
			p.idle <- l // has room: there are no more links than places
			return err
		case kept && isBroken(err) && ctx.Err() == nil:
			l.close()
			continue
		}
		l.close()
		switch {
		case isBroken(err) && ctx.Err() != nil: // which broke it
			return unavailable("ask the directory", ctx.Err())
		case isBroken(err):
			return unavailable("ask the directory", err)
		}
		return err
	}
}

// use calls f and ends the connection under it if ctx ends first.
func (p *pool) use(ctx context.Context, l *link, f func(*link) error) error {
	stop := context.AfterFunc(ctx, func() { _ = l.raw.Close() })
	defer stop()
	return f(l)
}

func (p *pool) take(ctx context.Context) (l *link, kept bool, err error) {
	select {
	case l = <-p.idle:
		return l, true, nil
	default:
	}
	l, err = p.dial(ctx)
	return l, false, err
}

// close ends the connections that nobody uses.
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

// isBroken says whether an error leaves the connection unusable: all that the directory did not say itself.
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
