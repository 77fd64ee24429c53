//go:build linux

package cluster

import (
	"net"
	"sync"
	"time"
)

// Mode is what a relay does with connections.
type Mode uint8

const (
	Pass     Mode = iota
	Hold          // nothing is passed on, and nothing is closed, as without a cable
	HoldUp        // only what the server sends is passed on
	HoldDown      // only what the node sends is passed on
	Refuse        // connections are closed, and new ones too
)

// Relay passes TCP connections of a node on to a server.
type Relay struct {
	listener net.Listener
	target   string
	running  sync.WaitGroup

	mu    sync.Mutex
	mode  Mode
	over  bool
	conns map[net.Conn]bool
	wake  chan struct{} // closed when the mode changes
}

// NewRelay listens on a free port of the loopback interface.
func NewRelay(target string) (*Relay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Relay{listener: l, target: target, conns: map[net.Conn]bool{}, wake: make(chan struct{})}
	r.running.Go(r.accept)
	return r, nil
}

// Address returns the address where the node connects.
func (r *Relay) Address() string { return r.listener.Addr().String() }

// Set changes the mode. What was held is passed on when it is not held any more.
func (r *Relay) Set(m Mode) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mode = m
	close(r.wake)
	r.wake = make(chan struct{})
	if m == Refuse {
		r.reset()
	}
}

// Reset closes the connections. What was held is lost.
func (r *Relay) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reset()
}

func (r *Relay) reset() {
	for c := range r.conns {
		_ = c.Close()
	}
}

// Close ends the relay.
func (r *Relay) Close() {
	r.mu.Lock()
	r.over = true
	r.mu.Unlock()
	r.Set(Refuse)
	_ = r.listener.Close()
	r.running.Wait()
}

func (r *Relay) accept() {
	for {
		c, err := r.listener.Accept()
		if err == nil {
			r.running.Go(func() { r.pass(c) })
			continue
		}
		r.mu.Lock()
		over := r.over
		r.mu.Unlock()
		if over {
			return
		}
		time.Sleep(10 * time.Millisecond) // no descriptor is free
	}
}

// add notes a connection. It closes it and returns false if the relay refuses connections.
func (r *Relay) add(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mode == Refuse || r.over {
		_ = c.Close()
		return false
	}
	r.conns[c] = true
	return true
}

func (r *Relay) drop(c net.Conn) {
	_ = c.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
}

// pass passes one connection on.
func (r *Relay) pass(node net.Conn) {
	if !r.add(node) {
		return
	}
	defer r.drop(node)
	server, err := net.DialTimeout("tcp", r.target, 2*time.Second)
	if err != nil || !r.add(server) {
		return
	}
	defer r.drop(server)
	var both sync.WaitGroup
	both.Go(func() { r.copy(server, node, HoldUp); _ = server.Close() })
	both.Go(func() { r.copy(node, server, HoldDown); _ = node.Close() })
	both.Wait()
}

// copy copies until a connection ends, and waits while the relay holds this direction.
func (r *Relay) copy(to, from net.Conn, held Mode) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		r.await(held)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// await waits while the relay holds a direction.
func (r *Relay) await(held Mode) {
	for {
		r.mu.Lock()
		mode, wake := r.mode, r.wake
		r.mu.Unlock()
		if mode != Hold && mode != held {
			return
		}
		<-wake
	}
}
