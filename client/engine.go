package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/url"
	"strings"
	"time"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
	"github.com/ruedahq/rueda/wire/stream"
)

const (
	firstBackoff = 500 * time.Millisecond
	maxBackoff   = 30 * time.Second
	maxRequested = time.Hour // longest wait that a gateway may request
	maxMessage   = 16 << 20  // of a gateway that states no higher bound
	maxMore      = 64 << 10  // entries beyond the limit of the queue

	firstHeartbeat = 10 * time.Second // until the gateway has stated the interval of its pings
	maxHeartbeat   = 30 * time.Second // whatever it has stated
)

// engine keeps the stream connected. It has what is known over all connections. While Events is in
// use, one goroutine at a time owns it: the one of run, or the reader of a connection in its turn.
type engine struct {
	*Client
	epoch       string
	position    string
	out         []entry // which are not in the queue yet
	all         map[stream.Series]*series
	series      map[stream.Series]*cursor
	past        map[stream.Series]uint64 // newest N of series that the set has no more
	had         map[item]bool            // subscribed before, so that the next connection resumes it
	restored    bool                     // from a Checkpoint: the next connection resumes everything
	bound       time.Duration            // of the next wait
	reconnectAt time.Time                // as the gateway has asked; zero: it has not
	broke       time.Time                // when a connection ended that the gateway has not closed
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
		defer func() { cancel(); <-ended }()
		c.deliver(ctx, ended, yield)
	}
}

// deliver gives events to the program until it leaves the loop, ctx ends, or the engine has ended
// and there is nothing more. If the program leaves the loop, the event in progress is not counted
// as processed.
func (c *Client) deliver(ctx context.Context, ended <-chan struct{}, yield func(Event) bool) {
	for over := false; ctx.Err() == nil; {
		ev, ok := c.take()
		switch {
		case ev != nil:
			if !yield(ev) {
				return
			}
		case ok: // nothing for the program
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
	c.taken.processed()
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

// report queues an event of the client itself.
func (e *engine) report(ev Event) { e.queueOwn(entry{event: ev, own: true}) }

// queueOwn queues an entry that needs no space, after what is not in the queue yet.
func (e *engine) queueOwn(x entry) {
	if len(e.out) > 0 {
		e.out = append(e.out, x)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queue.add(x)
	signal(e.queue.ready)
}

// flush adds what was received to the queue. If the queue is full, it waits. When ctx ends, it adds
// the rest nevertheless, because the cursors are behind it: a later call of Events delivers it.
func (e *engine) flush(ctx context.Context) (waited bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var ok bool
	if e.out, ok = e.queue.swap(e.out); ok {
		return false, nil
	}
	for i := 0; i < len(e.out); {
		switch x := &e.out[i]; {
		case x.own:
			e.queue.add(*x)
		case e.queue.data(x):
		case err != nil:
			e.queue.add(*x)
		default:
			waited, err = true, e.waitForSpace(ctx)
			continue
		}
		i++
	}
	clear(e.out)
	e.out = e.out[:0]
	for err == nil && len(e.queue.waiting)-e.queue.head > 4*e.queue.most+maxMore {
		waited, err = true, e.waitForSpace(ctx)
	}
	if e.queue.count > e.queue.most/2 { // the rest of what was received may not find space
		signal(e.queue.ready)
	}
	return waited, err
}

// waitForSpace wakes the program, and waits for space in the queue. It gives up the lock meanwhile.
func (e *engine) waitForSpace(ctx context.Context) error {
	e.mu.Unlock()
	defer e.mu.Lock()
	signal(e.queue.ready)
	select {
	case <-e.queue.space:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enter reports a state.
func (e *engine) enter(s StateChange) {
	e.mu.Lock()
	same := s.State == e.health.state && s.Err == nil
	if !same {
		e.health.state, e.health.url, e.health.since = s.State, s.URL, time.Now()
	}
	e.mu.Unlock()
	if !same {
		e.report(s)
	}
}

// run connects again and again until ctx ends or the gateway refuses the client for good.
func (e *engine) run(ctx context.Context) error {
	for {
		base := e.url(0)
		err := e.connect(ctx, base)
		silent := e.silent()
		e.disconnected()
		if own := e.replacedByOwn(err); ctx.Err() == nil && !own && !mayHelp(err) {
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

// ownDelay is how long after a connection broke off its messages may reach the gateway.
const ownDelay = time.Minute

// replacedByOwn notes how a connection ended. It reports whether an earlier connection of this
// client may have taken over the session: it broke off, and the network delivered its token late.
func (e *engine) replacedByOwn(err error) bool {
	broke := e.broke
	e.broke = time.Time{}
	var f *Error
	if !errors.As(err, &f) || !f.Closed {
		e.broke = time.Now()
	}
	return ReasonOf(err) == wire.Replaced && time.Since(broke) < ownDelay
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
	conn, network, err := e.dial(ctx, base)
	if err != nil {
		return at(base, err)
	}
	format, _ := wire.ParseSubprotocol(conn.Subprotocol()) // "": JSON
	e.enter(StateChange{State: Authenticating, URL: base.String()})
	l := &link{
		engine: e, conn: conn, network: network, format: format, base: base.String(), access: t.Access, began: time.Now(), scope: strings.Fields(t.Scope),
		turn: make(chan struct{}, 1), ended: make(chan error, 1), changed: make(chan struct{}, 1), results: make(chan func() error), most: maxItems, heartbeat: cmp.Or(e.opts.Heartbeat, firstHeartbeat),
		sent: map[item]*subscribed{}, asks: map[string]*ask{}, resynced: map[item]time.Time{},
		listed: map[market.InstrumentID][]market.InstrumentID{},
	}
	err = l.run(ctx)
	switch ReasonOf(err) {
	case wire.InvalidToken, wire.TokenExpired:
		e.tokens.invalidate(l.access)
	}
	return at(base, err)
}

// at adds the URL to an error of a connection.
func at(base *url.URL, err error) error {
	var broken brokenError
	if errors.As(err, &broken) {
		return brokenError{fmt.Errorf("%s: %w", base, broken.error)}
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
			e.queue.add(entry{event: BookInvalid{s.Instrument, "disconnected"}, own: true})
		}
	}
	signal(e.queue.ready)
}

// mark queues that everything before a position is processed, when the program gets there.
func (e *engine) mark(position string) {
	e.queueOwn(entry{mark: &mark{e.epoch, position}, own: true})
}

// moveTo stores a position from which the next connection can resume.
func (e *engine) moveTo(position string) {
	e.position = position
	e.mark(position)
}

// restore sets the progress from a checkpoint.
func (e *engine) restore(k *Checkpoint) error {
	e.epoch, e.position, e.restored = k.Epoch, k.Position, k.Epoch != ""
	done := &e.taken.done
	done.epoch, done.position = k.Epoch, k.Position
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
		c := e.cursor(i)
		c.n, c.known = n, true
		c.done, c.epoch = n, done.epochs
		done.series = append(done.series, c.series)
	}
	return nil
}
