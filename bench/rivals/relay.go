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

// sendBuffer is the SO_SNDBUF of every server that allows setting it, so that no server gains
// throughput from kernel memory.
const sendBuffer = 64 << 10

// relay is a running rival.
type relay struct {
	address string // of its WebSocket listener
	pids    []int  // processes that do its work in addition to this one
	// queues means that publish does not wait for slow clients, so the publisher must.
	queues bool
	// joined returns the number of subscribers that publish reaches; nil: the answer to a
	// subscriber confirms it.
	joined func() int
	// publish sends messages that belong together. They are never changed afterwards.
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

// members has the open connections.
type members[C comparable] struct {
	reading sync.WaitGroup

	mu     sync.Mutex
	list   []C // the slice is never changed in place, so a writer may use an old one
	closed bool
}

// join adds a connection and runs read on its own goroutine. read returns when the connection has
// ended. The handler of the upgrade does not run it, because the request's memory would then stay
// as long as the connection.
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

// end closes all connections and waits until their readers have returned.
func (m *members[C]) end(hangUp func(C) error) {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	for _, c := range m.all() {
		_ = hangUp(c) // it may have ended already
	}
	m.reading.Wait()
}

// writers is the number of goroutines that write to connections: as many threads as the ceiling
// program and Rueda have on two cores.
const writers = 2

// hall has connections of type C in rows. One goroutine writes to each row and waits for full
// sockets, so that the slowest client sets the pace and no message is lost. J is the type of a
// prepared message, which all connections share.
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

// publish allows each row one running job and one queued job.
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

// end closes the connections first, so that no row waits for a full socket.
func (h *hall[C, J]) end(hangUp func(C) error) {
	for i := range h.rows {
		h.rows[i].end(hangUp)
		close(h.jobs[i])
	}
	h.busy.Wait()
}
