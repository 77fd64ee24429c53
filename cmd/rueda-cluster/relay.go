package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// relay passes TCP connections on. It stands between two processes, to cut or stop what they send,
// and before several servers, to spread clients over them.
type relay struct {
	listener net.Listener
	target   func() string // address of the next connection; "": refuse it

	mu    sync.Mutex
	state relayState
	conns map[net.Conn]bool
	wake  chan struct{} // closed when the state changes
}

type relayState uint8

const (
	passing relayState = iota
	cut                // connections are closed, and new ones too
	silent             // nothing is passed on, and nothing is closed
)

// newRelay listens on an address.
func newRelay(ctx context.Context, listen string, target func() string) (*relay, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", listen, err)
	}
	return &relay{listener: l, target: target, conns: map[net.Conn]bool{}, wake: make(chan struct{})}, nil
}

// address returns the address of the relay.
func (r *relay) address() string { return r.listener.Addr().String() }

// set changes what the relay does.
func (r *relay) set(s relayState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = s
	close(r.wake)
	r.wake = make(chan struct{})
	if s == cut {
		for c := range r.conns {
			_ = c.Close()
		}
	}
}

// run passes connections on until ctx ends.
func (r *relay) run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	defer r.set(cut)
	defer context.AfterFunc(ctx, func() { _ = r.listener.Close() })()
	for {
		client, err := r.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // no descriptor is free
			continue
		}
		all.Go(func() { r.pass(ctx, client) })
	}
}

// add notes a connection, so that a cut closes it. It returns false if the relay is cut.
func (r *relay) add(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == cut {
		_ = c.Close()
		return false
	}
	r.conns[c] = true
	return true
}

func (r *relay) drop(c net.Conn) {
	_ = c.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
}

// pass passes one connection on.
func (r *relay) pass(ctx context.Context, client net.Conn) {
	if !r.add(client) {
		return
	}
	defer r.drop(client)
	address := r.target()
	if address == "" {
		return
	}
	server, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "tcp", address)
	if err != nil || !r.add(server) {
		return
	}
	defer r.drop(server)
	var both sync.WaitGroup
	both.Go(func() { r.copy(server, client); _ = server.Close() })
	both.Go(func() { r.copy(client, server); _ = client.Close() })
	both.Wait()
}

// copy copies until from ends or to fails, and waits while the relay is silent.
func (r *relay) copy(to io.Writer, from io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if !r.await() {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// await waits while the relay is silent. It returns false if it is cut.
func (r *relay) await() bool {
	for {
		r.mu.Lock()
		state, wake := r.state, r.wake
		r.mu.Unlock()
		if state != silent {
			return state == passing
		}
		<-wake
	}
}
