// Package witness is a client of a measurement that feels what others do: it sends pings and
// measures the time until their pongs.
//
// # Concurrency
//
// Each connection has one goroutine. Requests are handled on the caller's goroutine of Run.
package witness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/ruedahq/rueda/bench/load"
	"github.com/ruedahq/rueda/bench/proc"
	"github.com/ruedahq/rueda/internal/base/frame"
)

// Config is the argument of "open".
type Config struct {
	Address string
	Token   string
	Conns   int
	Every   time.Duration // between two pings of a connection
}

// Mark is the answer to "mark".
type Mark struct {
	Pings *load.Latency // since the last mark
}

// Run answers requests until in ends.
func Run(in io.Reader, out io.Writer) error {
	w := &witness{pings: new(load.Latency)}
	err := proc.Serve(in, out, map[string]proc.Handler{
		"open": proc.Handle(w.open),
		"mark": proc.Handle(w.mark),
	})
	w.close()
	return err
}

type witness struct {
	all   sync.WaitGroup
	conns []*Conn

	mu     sync.Mutex
	pings  *load.Latency
	fault  error // the first one
	closed bool
}

func (w *witness) open(cfg Config) (struct{}, error) {
	for i := range cfg.Conns {
		c, err := Dial(context.Background(), cfg.Address, cfg.Token)
		if err != nil {
			return struct{}{}, err
		}
		w.conns = append(w.conns, c)
		// Pings of all connections are spread evenly.
		begin := time.Now().Add(cfg.Every * time.Duration(i) / time.Duration(cfg.Conns))
		w.all.Go(func() {
			w.fail(w.ping(c, begin, cfg.Every))
		})
	}
	return struct{}{}, nil
}

// ping sends a ping at each tick and waits for its pong. A ping that is due while another one has
// no pong yet counts as sent at its tick. ping returns the error that ends it.
func (w *witness) ping(c *Conn, tick time.Time, every time.Duration) error {
	message := Text(`{"action":"ping","id":1}`)
	for {
		time.Sleep(time.Until(tick))
		sent := time.Now()
		if err := c.Write(message); err != nil {
			return err
		}
		if err := awaitPong(c); err != nil {
			return err
		}
		now := time.Now()
		w.mu.Lock()
		w.pings.Add(now.Sub(sent).Nanoseconds())
		for tick = tick.Add(every); tick.Before(now); tick = tick.Add(every) {
			w.pings.Add(now.Sub(tick).Nanoseconds())
		}
		w.mu.Unlock()
	}
}

func awaitPong(c *Conn) error {
	for {
		first, start, err := c.Next()
		switch {
		case err != nil:
			return err
		case first != frame.Text:
			return fmt.Errorf("frame %#x %q", first, start)
		case bytes.HasPrefix(start, []byte(`{"action":"pong"`)):
			return nil
		case bytes.HasPrefix(start, []byte(`{"type":"Error"`)):
			return errors.New(string(start))
		}
	}
}

func (w *witness) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fault == nil && !w.closed {
		w.fault = fmt.Errorf("a witness was closed: %w", err)
	}
}

func (w *witness) mark(struct{}) (*Mark, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := &Mark{Pings: w.pings}
	w.pings = new(load.Latency)
	return m, w.fault
}

func (w *witness) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	for _, c := range w.conns {
		_ = c.Close() // ends its goroutine
	}
	w.all.Wait()
}
