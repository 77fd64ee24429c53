package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

const (
	defaultDrain = 10 * time.Second
	// drainLook is the interval between two checks whether all sockets have closed during shutdown.
	drainLook = 20 * time.Millisecond
	// feedPatience bounds how long the start waits for feeds that have published nothing.
	feedPatience = 3 * time.Second
	// watchAgain is the delay before a failed watch of the user base is started again.
	watchAgain = 2 * time.Second
)

// Run serves until ctx ends and then shuts down: readiness becomes 503, the sockets are closed one
// by one within Config.Drain, and requests in flight are finished. It then returns nil. If a part
// of the gateway fails, Run ends with its error. Call Run once.
func (g *Gateway) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, g.close()) }()
	admin, shut, err := g.openAdmin(ctx)
	if err != nil {
		return err
	}
	defer shut()
	l := g.cfg.Listener
	switch {
	case l == nil:
		if l, err = g.open(ctx); err != nil {
			return err
		}
	case g.certificate != nil:
		l = g.sockets.TLSListener(l, g.certificate.Config())
	}
	bound := g.bound(l.Addr())

	// Feeds, users and the servers for requests run until the last socket is closed, so that load
	// balancers still get the answer 503.
	back := newGroup("market and users")
	defer back.end()
	back.run(g.runMarket)
	if g.certificate != nil {
		back.run(g.certificate.Run)
	}
	back.run(g.hub.Run)
	if g.journal != nil {
		back.run(g.journal.Run)
	}
	back.run(g.auth.Run)
	back.run(g.keys.Run)
	back.run(g.watchUsers)
	back.run(g.runAudit)
	back.run(g.usage.Run)
	back.run(g.instruments.Run)
	back.run(g.denials.Run)

	front := newGroup("requests")
	defer front.end()
	if admin != nil {
		bound.Admin = admin.Addr().String()
	}
	if isLoopback(l.Addr()) {
		g.own.Store(&bound.REST)
	}
	g.runAdmin(admin, front)
	front.run(func(ctx context.Context) error { return g.rest.Run(ctx, l) })

	sockets := newGroup("sockets")
	defer sockets.end()
	sockets.run(g.sockets.Run)

	if f := g.feeds.Load(); f != nil { // so that clients of a ready gateway find a market
		bound.Silent = f.Await(ctx, feedPatience)
	}
	g.up.Store(true)
	g.logReady(&bound)
	if g.cfg.OnReady != nil {
		g.cfg.OnReady(bound)
	}
	select {
	case <-ctx.Done():
		g.drain()
		return nil
	case <-back.failed():
		return back.cause()
	case <-front.failed():
		return front.cause()
	case <-sockets.failed():
		return sockets.cause()
	}
}

// logReady logs that the gateway is ready, with the settings that reveal most mistakes in a
// configuration.
func (g *Gateway) logReady(b *Bound) {
	var feeds []string
	for _, f := range g.cfg.Feeds {
		feeds = append(feeds, f.Name)
	}
	g.log.Info("ready", "address", b.Address, "tls", g.certificate != nil, "version", g.cfg.Version, "data", g.location,
		"users", cmp.Or(g.cfg.UsersType, "custom"), "feeds", cmp.Or(strings.Join(feeds, ","), "none"), "admin", cmp.Or(b.Admin, "none"))
	if b.Silent != "" {
		g.log.Warn("feeds have published nothing yet", "feeds", b.Silent)
	}
}

func (g *Gateway) bound(a net.Addr) Bound {
	b := Bound{Address: a.String(), REST: "http://" + a.String(), Stream: "ws://" + a.String() + "/stream"}
	if g.certificate != nil {
		b.REST, b.Stream = "https://"+b.Address, "wss://"+b.Address+"/stream"
	}
	return b
}

// drain closes the sockets, spread over Config.Drain. It returns when all are closed, or at the end
// of that time.
func (g *Gateway) drain() {
	g.draining.Store(true)
	g.log.Info("shutting down", "sockets", g.registry.Len(), "window", g.cfg.Drain)
	g.registry.Drain(g.cfg.Drain)
	window := time.After(g.cfg.Drain)
	look := time.NewTicker(drainLook)
	defer look.Stop()
	for g.registry.Len() > 0 {
		select {
		case <-look.C:
		case <-window:
			return
		}
	}
}

// watchUsers calls auth.UsersChanged whenever the user base may have changed, also through another
// process. It restarts a watch that fails. Without Config.WatchUsers, a change is found only when a
// user is read again, which auth.Service.Run does for users with open sockets.
func (g *Gateway) watchUsers(ctx context.Context) error {
	if g.cfg.WatchUsers == nil {
		return nil
	}
	for {
		err := g.cfg.WatchUsers(ctx, func() { g.auth.UsersChanged(ctx) })
		if ctx.Err() != nil {
			return nil
		}
		g.log.Error("watching users failed, retrying", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchAgain):
		}
		g.auth.UsersChanged(ctx) // for changes that were missed
	}
}

// group runs functions on goroutines of their own until end is called or one of the functions
// fails.
type group struct {
	name   string
	ctx    context.Context
	cancel context.CancelCauseFunc
	all    sync.WaitGroup
}

func newGroup(name string) *group {
	c := &group{name: name}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	return c
}

func (c *group) run(f func(context.Context) error) {
	c.all.Go(func() {
		if err := f(c.ctx); err != nil {
			c.cancel(fmt.Errorf("%s: %w", c.name, err)) // the first one counts
		}
	})
}

func (c *group) failed() <-chan struct{} { return c.ctx.Done() }
func (c *group) cause() error            { return context.Cause(c.ctx) }

// end cancels the context of the functions and waits until they return.
func (c *group) end() {
	c.cancel(context.Canceled)
	c.all.Wait()
}
