package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// sendBuffer is SO_SNDBUF of every server that lets us set it: no server shall buy
// throughput with the kernel's memory.
const sendBuffer = 64 << 10

// relay is a rival that runs and takes connections.
type relay struct {
	address string // of its WebSocket listener
	pids    []int  // of the processes that do its work besides this one
	// queues says that publish does not wait for slow clients: then the publisher must.
	queues bool
	// joined is how many subscribers publish reaches; nil: the answer to a subscriber says that
	// it is one.
	joined func() int
	// publish hands over messages that belong together. They are never changed afterwards.
	publish func(ctx context.Context, batch [][]byte) error
	close   func() error
}

// website is an HTTP server for upgrades on a free port.
type website struct {
	server http.Server
	done   chan error
}

func openWebsite(upgrade http.HandlerFunc) (*website, string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	w := &website{done: make(chan error, 1)}
	w.server = http.Server{
		Handler:           upgrade,
		ReadHeaderTimeout: 10 * time.Second,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetWriteBuffer(sendBuffer) // a server with larger buffers still works
			}
			return ctx
		},
	}
	go func() { w.done <- w.server.Serve(l) }()
	return w, l.Addr().String(), nil
}

func (w *website) close() error {
	err := w.server.Close()
	if served := <-w.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// members are connections that are written to and read from.
type members[C comparable] struct {
	reading sync.WaitGroup

	mu     sync.Mutex
	list   []C // what is in it never changes: whoever writes to all may hold an old one
	closed bool
}

// join adds a connection and runs read, which returns when the connection has
// ended, on a goroutine of its own: not in the handler of the upgrade, since the request's
// memory would then stay as long as the connection.
func (m *members[C]) join(c C, read func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.list = append(m.list, c)
	m.reading.Go(func() {
		read()
		m.leave(c)
	})
	return true
}

func (m *members[C]) leave(c C) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := slices.Index(m.list, c); i >= 0 {
		m.list = slices.Delete(slices.Clone(m.list), i, i+1)
	}
}

func (m *members[C]) all() []C {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.list
}

// end hangs up on everybody and waits until nobody is read from any more.
func (m *members[C]) end(hangUp func(C) error) {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	for _, c := range m.all() {
		_ = hangUp(c) // it may have gone by itself
	}
	m.reading.Wait()
}

// writers is how many goroutines write to connections: as many as the ceiling
// program and Rueda have threads on two cores.
const writers = 2

// hall is connections of type C in rows, each written to by one goroutine, which
// waits where a socket is full: so the slowest client sets the pace and nothing is lost.
// J is what is written, made once for all.
type hall[C comparable, J any] struct {
	rows  [writers]members[C]
	jobs  [writers]chan J
	next  atomic.Uint64
	write func(C, J) error
	busy  sync.WaitGroup
}

func openHall[C comparable, J any](write func(C, J) error) *hall[C, J] {
	h := &hall[C, J]{write: write}
	for i := range h.jobs {
		h.jobs[i] = make(chan J, 1)
		h.busy.Go(func() { h.work(i) })
	}
	return h
}

func (h *hall[C, J]) join(c C, read func()) bool {
	return h.rows[h.next.Add(1)%writers].join(c, read)
}

func (h *hall[C, J]) joined() int {
	n := 0
	for i := range h.rows {
		n += len(h.rows[i].all())
	}
	return n
}

func (h *hall[C, J]) work(i int) {
	for job := range h.jobs[i] {
		for _, c := range h.rows[i].all() {
			if h.write(c, job) != nil {
				h.rows[i].leave(c)
			}
		}
	}
}

// publish lets each row have one job in hand and one in store.
func (h *hall[C, J]) publish(ctx context.Context, job J) error {
	for _, jobs := range h.jobs {
		select {
		case jobs <- job:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// end hangs up first, so that nobody goes on waiting for a full socket.
func (h *hall[C, J]) end(hangUp func(C) error) {
	for i := range h.rows {
		h.rows[i].end(hangUp)
		close(h.jobs[i])
	}
	h.busy.Wait()
}
