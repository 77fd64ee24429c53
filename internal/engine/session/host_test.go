package session_test

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/api/asyncapi/asyncapitest"
	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/talk"
	"github.com/ruedahq/rueda/wire"
)

// host runs sessions without a socket. One goroutine owns all of them, and messages of clients
// reach the session unchanged.
type host struct {
	world *talk.World
	shard *subscription.Shard
	wake  chan struct{}
	wg    sync.WaitGroup

	mu    sync.Mutex
	inbox []func(now time.Time)

	conns map[*pipe]struct{} // of the goroutine
}

func newHost(w *talk.World) *host {
	h := &host{world: w, wake: make(chan struct{}, 1), conns: make(map[*pipe]struct{})}
	h.shard = subscription.NewShard(w.Hub, func(bool) { h.rouse() })
	return h
}

func (h *host) rouse() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (h *host) post(f func(time.Time)) {
	h.mu.Lock()
	h.inbox = append(h.inbox, f)
	h.mu.Unlock()
	h.rouse()
}

// run owns the sessions until ctx ends.
func (h *host) run(ctx context.Context) {
	defer h.wg.Wait()
	for {
		timer := time.NewTimer(time.Until(h.deadline()))
		select {
		case <-ctx.Done():
			timer.Stop()
			for p := range h.conns {
				p.sess.PeerGone()
			}
			return
		case <-h.wake:
		case <-timer.C:
		}
		timer.Stop()
		now := time.Now()
		h.mu.Lock()
		inbox := h.inbox
		h.inbox = nil
		h.mu.Unlock()
		for _, f := range inbox {
			f(now)
		}
		for p := range h.conns {
			if d := p.sess.Deadline(); !d.IsZero() && !d.After(now) {
				p.sess.Handle(now, session.Event{Kind: session.Timer})
			}
		}
		for h.shard.Turn(); h.shard.Next() != nil; {
		}
		for p := range h.conns {
			h.settle(now, p)
		}
	}
}

func (h *host) deadline() time.Time {
	next := time.Now().Add(time.Hour)
	for p := range h.conns {
		if d := p.sess.Deadline(); !d.IsZero() && d.Before(next) {
			next = d
		}
		if !p.endBy.IsZero() && p.endBy.Before(next) {
			next = p.endBy
		}
	}
	return next
}

// settle does what a session requests.
func (h *host) settle(now time.Time, p *pipe) {
	if token, _, ok := p.sess.TakeToken(); ok {
		h.wg.Go(func() {
			id, fault := h.world.Env.Verify(context.Background(), token)
			h.post(func(now time.Time) {
				p.sess.Handle(now, session.Event{Kind: session.Verified, Identity: id, Fault: fault})
			})
		})
	}
	for p.out == nil || !p.stalled {
		if p.out != nil {
			n := len(p.out)
			p.deliver(p.out)
			p.out = nil
			p.sess.Wrote(now, n)
		}
		if p.out = p.sess.Output(now, nil, 4<<10); len(p.out) == 0 {
			p.out = nil
			break
		}
		p.sess.Sent(now, len(p.out), 0)
	}
	code, reason, ok := p.sess.Close()
	switch {
	case p.sess.Reset():
		h.end(p, &talk.Closed{Code: 1006})
	case !ok:
	case p.out == nil && !p.sess.Pending():
		h.end(p, &talk.Closed{Code: code, Reason: reason})
	case p.endBy.IsZero():
		p.endBy = now.Add(2 * time.Second)
	case !now.Before(p.endBy):
		h.end(p, &talk.Closed{Code: 1006})
	}
}

func (h *host) end(p *pipe, err error) {
	if _, ok := h.conns[p]; ok {
		delete(h.conns, p)
		p.sess.PeerGone()
		p.finish(err)
	}
}

// dial connects a client.
func (h *host) dial(o talk.Offer) (talk.Conn, error) {
	p := &pipe{host: h, format: o.Format, more: make(chan struct{}, 1)}
	peer := session.Peer{Format: o.Format}
	if o.Bearer != "" {
		peer.Mark = h.world.Env.Registry.Mark()
		id, fault := h.world.Env.Verify(context.Background(), o.Bearer)
		if fault != nil {
			return nil, fault
		}
		peer.Identity = id
	}
	h.post(func(now time.Time) {
		p.sess = new(session.Session)
		p.sess.Start(h.world.Env, peer, h.shard, p, now)
		h.conns[p] = struct{}{}
	})
	return p, nil
}

// pipe is a connection without a socket. Send passes messages to the session, Receive returns what
// the host read from it.
type pipe struct {
	host   *host
	format wire.Format
	more   chan struct{}

	mu    sync.Mutex
	queue []string
	err   error // after the queue

	// The following fields belong to the host's goroutine.
	sess    *session.Session
	out     []byte // gathered, not taken by the client
	stalled bool
	endBy   time.Time
}

// Post queues an event.
func (p *pipe) Post(n session.Event) {
	p.host.post(func(now time.Time) { p.sess.Handle(now, n) })
}

func (p *pipe) Send(text bool, msg []byte) error {
	p.host.post(func(now time.Time) {
		limit := p.host.world.Env.MessageBytes
		switch {
		case !text:
			p.sess.Handle(now, session.Event{Kind: session.Binary, Message: msg})
		case limit > 0 && len(msg) > limit || len(msg) > 64<<10:
			p.sess.Handle(now, session.Event{Kind: session.TooBig})
		default:
			p.sess.Handle(now, session.Event{Kind: session.Text, Message: msg})
		}
	})
	return nil
}

func (p *pipe) Receive() (string, error) {
	for {
		p.mu.Lock()
		if len(p.queue) > 0 {
			text := p.queue[0]
			p.queue = p.queue[1:]
			p.mu.Unlock()
			return text, nil
		}
		err := p.err
		p.mu.Unlock()
		if err != nil {
			return "", err
		}
		<-p.more
	}
}

func (p *pipe) Close() error {
	p.host.post(func(time.Time) { p.host.end(p, &talk.Closed{Code: 1006}) })
	return nil
}

func (p *pipe) Stall(on bool) {
	p.host.post(func(time.Time) { p.stalled = on })
}

// deliver passes frames to the client.
func (p *pipe) deliver(frames []byte) {
	texts, err := unpack(frames, p.format)
	if err != nil {
		p.finish(&talk.Closed{Code: 1002, Reason: err.Error()})
		return
	}
	p.mu.Lock()
	p.queue = append(p.queue, texts...)
	p.mu.Unlock()
	p.signal()
}

func (p *pipe) finish(err error) {
	p.mu.Lock()
	p.err = err
	p.mu.Unlock()
	p.signal()
}

func (p *pipe) signal() {
	select {
	case p.more <- struct{}{}:
	default:
	}
}

// split splits frames of JSON, whose messages must be as the AsyncAPI document has them.
func split(b []byte) ([]string, error) {
	texts, err := unpack(b, wire.JSON)
	for _, text := range texts {
		if err == nil {
			err = asyncapitest.CheckReceived([]byte(text))
		}
	}
	return texts, err
}

// unpack splits unmasked, unfragmented frames. Each must contain messages as this server writes
// them.
func unpack(b []byte, f wire.Format) ([]string, error) {
	var all []string
	for len(b) > 0 {
		if len(b) < 2 {
			return nil, errors.New("frame cut short")
		}
		head, n := 2, int(b[1])
		switch {
		case n == 126 && len(b) >= 4:
			head, n = 4, int(binary.BigEndian.Uint16(b[2:]))
		case n == 127 && len(b) >= 10:
			head, n = 10, int(binary.BigEndian.Uint64(b[2:]))
		}
		if len(b) < head+n {
			return nil, errors.New("frame cut short")
		}
		texts, err := talk.Unpack(f, b[0], b[head:head+n])
		if err != nil {
			return nil, err
		}
		all = append(all, texts...)
		b = b[head+n:]
	}
	return all, nil
}
