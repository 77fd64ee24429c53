package socket

import (
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/internal/engine/deflate"
	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/internal/engine/socket/counters"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/wire"
)

// shard is an event loop: one goroutine with its connections and their sessions.
type shard struct {
	server *Server
	log    *slog.Logger
	kernel *kernel
	stream *subscription.Shard
	loop   *eventLoop    // nil: all connections are netConns
	wakeCh chan struct{} // without an event loop: there is work
	quit   chan struct{} // closed to end run
	load   atomic.Int64  // number of connections

	woken   atomic.Bool // there is work
	waiting atomic.Bool // in the poller, until wakeUp
	inbox   inbox
	pieces  []input // of long messages, which wait for their turn; a connection has one at most
	flusher flusher

	// Owned by the shard's goroutine.
	conns      connTable
	wheel      wheel
	dirty      []*conn     // to flush at the end of the iteration
	postponed  []*conn     // to flush again after the others; marked as dirty
	noOptional optional    // shared by all connections without optional state; always empty
	shutdown   *wire.Fault // closes all new connections; nil: none

	pong    [2 + maxControl]byte // encodes pongs
	parser  Parser               // for connections between messages
	scratch []byte               // for the output of a session
	joined  []byte               // for output with control frames
	writes  uint64               // of this iteration
	counts  counts
	figures counters.Shard
	reason  string // of the connection that is being closed; "": that of its session

	pauseLogged time.Time // last log record of a pause

	inflater deflate.Decompressor // for input of all its connections
}

// counts are the counters of a shard for Stats. Only its goroutine writes them.
type counts struct{ flushes, writes atomic.Uint64 }

func newShard(s *Server) *shard {
	sh := &shard{
		server: s, log: s.cfg.Logger, kernel: &s.kernel,
		wakeCh: make(chan struct{}, 1), quit: make(chan struct{}),
		wheel:   wheel{exact: true, earliest: never},
		scratch: make([]byte, 0, gatherSize+gatherSize/4),
	}
	sh.flusher.shard = sh
	sh.stream = subscription.NewShard(s.cfg.Hub, sh.published)
	return sh
}

// published records that there is something to flush. The hub calls it with its lock held.
func (sh *shard) published(urgent bool) {
	sh.flusher.published(urgent)
	sh.wakeUp()
}

// wakeUp causes an iteration of the event loop. It never blocks.
func (sh *shard) wakeUp() {
	if sh.loop != nil {
		if !sh.woken.Swap(true) && sh.waiting.Load() {
			sh.loop.poller.wake()
		}
		return
	}
	select {
	case sh.wakeCh <- struct{}{}:
	default:
	}
}

// post adds an input to the inbox. It never blocks. Readers and writers wait for the shard, which
// bounds the inputs of a connection.
func (sh *shard) post(in input) {
	switch first, closed := sh.inbox.add(in); {
	case closed && in.kind == inputSocket:
		sh.kernel.close(int32(in.n), true)
	case first:
		sh.wakeUp()
	}
}

// stop ends run.
func (sh *shard) stop() {
	close(sh.quit)
	sh.wakeUp()
}

// run runs the event loop until quit is closed.
func (sh *shard) run() {
	if sh.loop != nil {
		sh.loop.run()
		return
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if next := sh.nextDeadline(); next != never {
			timer.Reset(time.Until(sh.server.time(next)))
		} else {
			timer.Stop()
		}
		select {
		case <-sh.wakeCh:
		case <-timer.C:
		case <-sh.quit:
			return
		}
		sh.runOnce(time.Now())
	}
}

// nextDeadline returns when the shard has work without an event.
func (sh *shard) nextDeadline() deadline {
	next := sh.wheel.next()
	if sh.loop != nil && sh.loop.retryAccept != 0 {
		next = min(next, sh.loop.retryAccept)
	}
	if sh.flusher.pending.Load() {
		next = min(next, sh.server.deadline(sh.flusher.due()))
	}
	return next
}

// runOnce makes one iteration: it handles what has arrived and writes the output.
func (sh *shard) runOnce(now time.Time) {
	sh.takeInbox(now)
	if sh.loop != nil {
		sh.loop.resumeAccept(now)
		sh.loop.readPendingConns(now)
	}
	sh.wheel.runTimers(sh.server.deadline(now), func(c *conn) {
		sh.runTimers(now, c)
		sh.markDirty(c)
	})
	if sh.flusher.overdue(now) {
		now = time.Now()
		sh.flusher.run(now) // and dirty connections
	}
	sh.flushDirty(now)
	if sh.flusher.pending.Load() && !now.Before(sh.flusher.due()) {
		sh.flusher.run(now)
	}
	sh.flushPostponed(now)
	sh.counts.writes.Add(sh.writes)
	sh.writes = 0
}

// takeInbox handles the inputs in the inbox.
func (sh *shard) takeInbox(now time.Time) {
	items := sh.inbox.take()
	for i := range items {
		if i > 0 && sh.flusher.overdue(now) {
			sh.inbox.putBack(items[i:])
			sh.wakeUp()
			break
		}
		if items[i].event.Kind == session.NextPiece {
			sh.pieces = append(sh.pieces, items[i])
			continue
		}
		sh.handle(now, &items[i])
	}
	sh.inbox.release(items)
	sh.handlePiece(now)
}

// handlePiece handles a piece of the long message that has waited longest. It is one piece an
// iteration, however many connections have long messages, so that the others do not wait for all.
func (sh *shard) handlePiece(now time.Time) {
	if len(sh.pieces) == 0 {
		return
	}
	in := sh.pieces[0]
	sh.pieces = slices.Delete(sh.pieces, 0, 1)
	if sh.handle(now, &in); len(sh.pieces) > 0 {
		sh.wakeUp()
	}
}

func (sh *shard) flushDirty(now time.Time) {
	for i := 0; i < len(sh.dirty); i++ {
		sh.flush(now, sh.dirty[i])
	}
	clear(sh.dirty)
	sh.dirty = sh.dirty[:0]
}

// markDirty lists c for a flush in this iteration.
func (sh *shard) markDirty(c *conn) {
	if !c.dirty && c.phase != phaseEnded {
		c.dirty = true
		sh.dirty = append(sh.dirty, c)
	}
}

// connTable holds the connections of a shard by id.
type connTable struct {
	byID  []*conn
	uses  []uint32 // how many connections have had each id
	free  []int32  // unused ids
	freed []int32  // unused ids that events of the poller may still name
}

// add gives c an id.
func (t *connTable) add(c *conn) {
	if n := len(t.free); n > 0 {
		c.id = t.free[n-1]
		t.free = t.free[:n-1]
		t.byID[c.id] = c
		t.uses[c.id]++
		return
	}
	c.id = int32(len(t.byID))
	t.byID, t.uses = append(t.byID, c), append(t.uses, 1)
}

// remove frees the id of c. With events, it is not used again before recycle is called.
func (t *connTable) remove(c *conn, events bool) {
	t.byID[c.id] = nil
	if events {
		t.freed = append(t.freed, c.id)
	} else {
		t.free = append(t.free, c.id)
	}
}

// recycle makes the ids of removed connections available when no event names them.
func (t *connTable) recycle() {
	t.free = append(t.free, t.freed...)
	t.freed = t.freed[:0]
}
