package client

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"net/url"
	"strings"
	"time"

	"github.com/ruedahq/rueda/wire"
	"github.com/ruedahq/rueda/wire/stream"
)

const (
	firstBackoff = 500 * time.Millisecond
	maxBackoff   = 30 * time.Second
	maxRequested = time.Hour // longest wait that a gateway may request
	maxMessage   = 16 << 20

	firstHeartbeat = 10 * time.Second // until the gateway has stated the interval of its pings
)

// engine keeps the stream connected. It has what is known over all connections. While Events is in
// use, one goroutine owns it: run, which calls everything of engine and link.
type engine struct {
	*Client
	epoch       string
	position    string
	series      map[stream.Series]*cursor
	past        map[stream.Series]uint64 // newest N of series that the set has no more
	had         map[item]bool            // subscribed before, so that the next connection resumes it
	restored    bool                     // from a Checkpoint: the next connection resumes everything
	bound       time.Duration            // of the next wait
	reconnectAt time.Time                // as the gateway has asked; zero: it has not
}

// cursor is the progress in a series without gaps.
type cursor struct {
	floor uint64 // newest N of an earlier subscription, up to which nothing comes again
	n     uint64 // newest N
	known bool   // n is known, and the next N must follow it
	time  int64  // of the newest event, Unix ns; 0: unknown
	since uint64 // n at the beginning of the connection
	to    uint64 // N at which the replay of the connection ends; 0: unknown
	fill  *fill  // a gap is being filled; nil: none
	tried uint64 // first N of a gap that history did not fill
	named bool   // the next connection names the instrument, to resume after n
}

func (e *engine) cursor(s stream.Series) *cursor {
	c := e.series[s]
	if c == nil {
		c = &cursor{floor: e.past[s]}
		e.series[s] = c
	}
	return c
}

// drop forgets the progress of a series that the set has no more, except what was delivered: a
// resume by position may repeat it.
func (e *engine) drop(s stream.Series, c *cursor) {
	delete(e.series, s)
	if n := max(c.n, c.floor); n > 0 && s.Channel.Replays() {
		e.past[s] = n
	}
}

// Events connects the stream and iterates over its events until ctx ends, the loop is left, or the
// gateway refuses the client for good; Err has the reason. The connection ends with the loop. A
// later call continues where this one stopped. One call at a time may be in use.
func (c *Client) Events(ctx context.Context) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		if !c.running.CompareAndSwap(false, true) {
			yield(StateChange{State: Closed, Err: ErrInUse})
			return
		}
		defer c.running.Store(false)
		ctx, cancel := context.WithCancel(ctx)
		ended := make(chan struct{})
		c.end(nil)
		go func() {
			defer close(ended)
			c.end(c.engine.run(ctx))
		}()
		defer func() {
			cancel()
			<-ended
		}()
		var last entry
		for over := false; ctx.Err() == nil; {
			e, ok := c.take(&last)
			switch last = e; {
			case ok:
				if e.event != nil && !yield(e.event) {
					c.processed(&e)
					return
				}
			case over:
				return
			default:
				select {
				case <-c.queue.ready:
				case <-ended:
					over = true
				case <-ctx.Done():
				}
			}
		}
	}
}

// end records what ended Events.
func (c *Client) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

// Err returns what ended Events for good, such as a revoked login. It is nil if the context ended
// or the loop was left.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// take takes the next entry of the queue, after the program has processed the last one. A merged
// book gets its state.
func (c *Client) take(last *entry) (entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finish(last)
	for {
		e, ok := c.queue.take()
		if !ok || !e.merged {
			return e, ok
		}
		u, b := e.event.(BookUpdate), c.books[e.series]
		if b == nil || !b.valid || b.n != u.N {
			continue // the queue has a BookInvalid after it
		}
		u.Snapshot, u.Depth, u.Previous, u.Bids, u.Asks = true, b.depth, 0, b.Bids(0), b.Asks(0)
		e.event = u
		return e, true
	}
}

// report queues an event of the client itself.
func (c *Client) report(ev Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue.add(entry{event: ev})
}

// pushed queues market data. If the queue is full, it waits.
func (e *engine) pushed(ctx context.Context, x entry) (waited bool, err error) {
	for {
		e.mu.Lock()
		ok := e.queue.data(x)
		e.mu.Unlock()
		if ok {
			return waited, nil
		}
		waited = true
		signal(e.queue.ready)
		select {
		case <-e.queue.space:
		case <-ctx.Done():
			return waited, ctx.Err()
		}
	}
}

// enter reports a state.
func (e *engine) enter(s StateChange) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.State == e.health.state && s.Err == nil {
		return
	}
	e.health.state, e.health.url, e.health.since = s.State, s.URL, time.Now()
	e.queue.add(entry{event: s})
}

// run connects again and again until ctx ends or the gateway refuses the client for good.
func (e *engine) run(ctx context.Context) error {
	for {
		base := e.url(0)
		err := e.connect(ctx, base)
		silent := e.silent()
		e.disconnected()
		if isFinal(err) {
			e.enter(StateChange{State: Closed, URL: base.String(), Err: err, Silent: silent})
			return err
		}
		if ctx.Err() == nil {
			wait := e.pause(err)
			e.enter(StateChange{State: Waiting, URL: base.String(), Err: err, Wait: wait, Silent: silent})
			e.next()
			_ = sleep(ctx, wait) // the next line checks ctx
		}
		if ctx.Err() != nil {
			e.enter(StateChange{State: Idle, URL: base.String()})
			return nil
		}
	}
}

// silent returns how long nothing has come on the connection.
func (e *engine) silent() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.health.link.IsZero() {
		return 0
	}
	return time.Since(e.health.link)
}

// pause returns how long to wait before the next attempt: as the gateway has asked, or a random
// part of a bound that doubles. So clients of a gateway that was down do not all come at once.
func (e *engine) pause(err error) time.Duration {
	if until := time.Until(e.reconnectAt); until > 0 {
		e.reconnectAt = time.Time{}
		return until
	}
	e.bound = min(max(2*e.bound, firstBackoff), maxBackoff)
	return rand.N(e.bound) + retryAfter(err)
}

// connect makes one connection and handles its messages until it ends, always with an error.
func (e *engine) connect(ctx context.Context, base *url.URL) error {
	e.enter(StateChange{State: Connecting, URL: base.String()})
	t, err := e.tokens.get(ctx)
	if err != nil {
		return err
	}
	conn, err := e.dial(ctx, base)
	if err != nil {
		return err
	}
	format, _ := wire.ParseSubprotocol(conn.Subprotocol()) // "": JSON
	e.enter(StateChange{State: Authenticating, URL: base.String()})
	l := &link{
		engine: e, conn: conn, format: format, base: base.String(), access: t.Access, began: time.Now(), scope: strings.Fields(t.Scope),
		frames: make(chan frame, 256), spare: make(chan []byte, 256), results: make(chan func() error), most: maxItems, heartbeat: cmp.Or(e.opts.Heartbeat, firstHeartbeat),
		sent: map[item]*subscribed{}, asks: map[string]*ask{}, resynced: map[item]time.Time{},
	}
	err = l.run(ctx)
	switch ReasonOf(err) {
	case wire.InvalidToken, wire.TokenExpired:
		e.tokens.invalidate(l.access)
	}
	return err
}

// disconnected forgets what ends with a connection. Books are not known until their next snapshot.
func (e *engine) disconnected() {
	for _, c := range e.series {
		if c.fill != nil && c.fill.ended != nil {
			e.report(*c.fill.ended)
		}
		c.fill, c.to = nil, 0
	}
	e.http.CloseIdleConnections() // what broke the stream may have broken them too
	e.mu.Lock()
	defer e.mu.Unlock()
	e.health.link, e.health.data = time.Time{}, time.Time{}
	for s, b := range e.books {
		if b.valid {
			b.Invalidate()
			e.queue.add(entry{event: BookInvalid{s.Instrument, "disconnected"}})
		}
	}
}

// mark queues that everything before a position is processed, when the program gets there.
func (e *engine) mark(position string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queue.add(entry{mark: true, epoch: e.epoch, position: position})
}

// moveTo stores a position from which the next connection can resume.
func (e *engine) moveTo(position string) {
	e.position = position
	e.mark(position)
}

// Checkpoint is what a program has processed. Stored on disk, it lets a later run of the program
// continue without a loss: see Options.Resume. Its JSON is stable.
type Checkpoint struct {
	Epoch     string            `json:"epoch"`
	Position  string            `json:"position"`
	Sequences map[string]uint64 `json:"sequences"` // newest N by series: trades GGAL|BYMA|24hs
}

// Checkpoint returns what the body of the loop over Events has processed, without the event that it
// is processing.
func (c *Client) Checkpoint() Checkpoint {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := Checkpoint{Epoch: c.done.epoch, Position: c.done.position, Sequences: make(map[string]uint64, len(c.done.newest))}
	for s, n := range c.done.newest {
		k.Sequences[s.String()] = n
	}
	return k
}

// processed records an entry for Checkpoint.
func (c *Client) processed(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finish(e)
}

// finish is processed for a caller that holds the lock.
func (c *Client) finish(e *entry) {
	switch {
	case e.mark:
		if c.done.epoch != e.epoch {
			c.done = progress{epoch: e.epoch, newest: map[stream.Series]uint64{}}
		}
		c.done.position = cmp.Or(e.position, c.done.position)
	case e.event != nil && e.n > 0 && !e.old && e.series.Channel.Replays():
		c.done.newest[e.series] = e.n
	}
}

// progress is what a Checkpoint is made of.
type progress struct {
	epoch, position string
	newest          map[stream.Series]uint64
}

// restore sets the progress from a checkpoint.
func (e *engine) restore(k *Checkpoint) error {
	e.epoch, e.position, e.restored = k.Epoch, k.Position, k.Epoch != ""
	e.done.epoch, e.done.position = k.Epoch, k.Position
	for name, n := range k.Sequences {
		channel, id, _ := strings.Cut(name, " ")
		i, err := item{}, errors.New("unknown channel")
		for c := range wire.Bars + 1 {
			if c.String() == channel {
				i, err = newItem(c, id)
			}
		}
		if err != nil {
			return errors.Join(errors.New("client: series "+name+" of the checkpoint"), err)
		}
		e.done.newest[i] = n
		*e.cursor(i) = cursor{n: n, known: true}
	}
	return nil
}
