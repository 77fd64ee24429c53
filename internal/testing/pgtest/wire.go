package pgtest

import (
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// Wire is a proxy between a program and a server. While it is cut, data is neither delivered nor
// refused, as with an unplugged cable.
type Wire struct {
	to       string
	listener net.Listener
	running  sync.WaitGroup

	mu    sync.Mutex
	whole *sync.Cond // signalled when the wire is restored or closed
	cut   bool
	over  bool
	conns []net.Conn
}

// NewWire starts a wire to the server of a DSN, and returns the DSN of its near end.
func NewWire(t testing.TB, dsn string) (*Wire, string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &Wire{to: u.Host, listener: l}
	w.whole = sync.NewCond(&w.mu)
	w.running.Go(w.accept)
	t.Cleanup(w.close)
	u.Host = l.Addr().String()
	return w, u.String()
}

// Cut stops all traffic.
func (w *Wire) Cut() { w.set(true) }

// Restore delivers the data that was sent meanwhile.
func (w *Wire) Restore() { w.set(false) }

func (w *Wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	w.whole.Broadcast()
}

func (w *Wire) close() {
	w.mu.Lock()
	w.over = true
	w.whole.Broadcast()
	_ = w.listener.Close()
	for _, c := range w.conns {
		_ = c.Close()
	}
	w.mu.Unlock()
	w.running.Wait()
}

func (w *Wire) accept() {
	for {
		near, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.running.Go(func() { w.join(near) })
	}
}

// join copies data in both directions until one end is closed.
func (w *Wire) join(near net.Conn) {
	defer near.Close()
	if !w.wait() {
		return
	}
	far, err := net.Dial("tcp", w.to)
	if err != nil {
		return
	}
	defer far.Close()
	if !w.keep(near, far) {
		return
	}
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
		both.Go(func() {
			_ = w.copy(pair[1], pair[0])
			_, _ = near.Close(), far.Close()
		})
	}
	both.Wait()
}

func (w *Wire) keep(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns = append(w.conns, conns...)
	return !w.over
}

func (w *Wire) copy(to io.Writer, from io.Reader) error {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		if !w.wait() {
			return errors.New("the test is over")
		}
		if _, err := to.Write(b[:n]); err != nil {
			return err
		}
		if err != nil {
			return err
		}
	}
}

// wait waits while the wire is cut. It returns false if the wire is closed.
func (w *Wire) wait() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.cut && !w.over {
		w.whole.Wait()
	}
	return !w.over
}
