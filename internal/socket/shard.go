package socket

import (
	"container/list"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/internal/deflate"
	"github.com/ruedahq/rueda/internal/session"
	"github.com/ruedahq/rueda/internal/stream"
	"github.com/ruedahq/rueda/wire"
)

// inputKind is the kind of an input. It determines which fields are set.
type inputKind uint8

const (
	inputStart    inputKind = iota // a new connection
	inputData                      // data from the peer of a netConn
	inputMessage                   // data is a text message of a LocalConn
	inputEOF                       // end of the input of a netConn; failed: of its output too
	inputWrote                     // n bytes of a netConn were written; last, failed
	inputSocket                    // an accepted socket: n is its descriptor, conn is nil
	inputTLSDone                   // a TLS handshake is over: failed
	inputVerified                  // a token check is done: result
	inputEvent                     // an event for the session
	inputCloseAll                  // all connections are to close: fault; conn is nil
)

// input is an event in the inbox of a shard.
type input struct {
	kind   inputKind
	last   bool // all was written
	failed bool // the write or handshake has failed
	n      int
	from   netip.AddrPort // peer of an accepted socket
	conn   *conn
	data   []byte
	result *result
	fault  *wire.Fault
	event  session.Event
}

// shard is an event loop: one goroutine with its connections and their sessions.
type shard struct {
	server *Server
	log    *slog.Logger
	kernel *kernel
	stream *stream.Shard
	loop   *eventLoop    // nil: all connections are netConns
	wakeCh chan struct{} // without an event loop: there is work
	quit   chan struct{} // closed to end run
	load   atomic.Int64  // number of connections

	woken        atomic.Bool // there is work
	waiting      atomic.Bool // in the poller, until wakeUp
	flushPending atomic.Bool // messages were published since the last flush
	urgent       atomic.Bool // flush without waiting for more messages

	mu     sync.Mutex
	inbox  []input
	closed bool // discards inputs

	// Owned by the shard's goroutine.
	nextInbox  []input
	conns      connTable
	wheel      wheel
	dirty      []*conn     // to flush at the end of the iteration
	postponed  []*conn     // to flush again after the others; marked as dirty
	readList   []*conn     // with more input than was read
	heads      list.List   // of *conn: their request is being read; oldest first
	noOptional optional    // shared by all connections without optional state; always empty
	shutdown   *wire.Fault // closes all new connections; nil: none

	pong            [2 + maxControl]byte // encodes pongs
	parser          Parser               // for connections between messages
	batch           *uringBatch          // nil: one system call for each write
	scratch         []byte               // for the output of a session
	joined          []byte               // for output with control frames
	ciphertext      []byte               // for encrypted output
	flushedAt       time.Time            // start of the last flush
	flushTook       time.Duration        // duration of the last flush, without other input
	flushWrites     int                  // writes of the last flush
	commitWaitUntil time.Time            // the flush waits for a commit, until then at most
	writes          uint64               // of this iteration
	counts          counts

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
	sh.stream = s.cfg.Hub.NewShard(sh.published)
	return sh
}

// published records that there is something to flush. The hub calls it with its lock held.
func (sh *shard) published(urgent bool) {
	if urgent {
		sh.urgent.Store(true)
	}
	sh.flushPending.Store(true)
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
	sh.mu.Lock()
	if sh.closed && in.kind == inputSocket {
		sh.mu.Unlock()
		sh.kernel.close(int32(in.n), true)
		return
	}
	sh.inbox = append(sh.inbox, in)
	first := len(sh.inbox) == 1
	sh.mu.Unlock()
	if first {
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
		sh.runLoop()
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
	if sh.flushPending.Load() {
		next = min(next, sh.server.deadline(sh.flushAt()))
	}
	return next
}

// runOnce makes one iteration: it handles what has arrived and writes the output.
func (sh *shard) runOnce(now time.Time) {
	sh.takeInbox(now)
	sh.resumeAccept(now)
	sh.readPendingConns(now)
	sh.wheel.runTimers(sh.server.deadline(now), func(c *conn) {
		sh.runTimers(now, c)
		sh.markDirty(c)
	})
	if sh.flushOverdue(now) {
		now = time.Now()
		sh.flushSubscribers(now) // and dirty connections
	}
	sh.flushDirty(now)
	if sh.flushPending.Load() && !now.Before(sh.flushAt()) {
		sh.flushSubscribers(now)
	}
	sh.flushPostponed(now)
	sh.counts.writes.Add(sh.writes)
	sh.writes = 0
}

func (sh *shard) takeInbox(now time.Time) {
	sh.mu.Lock()
	items := sh.inbox
	sh.inbox = sh.nextInbox[:0]
	sh.mu.Unlock()
	for i := range items {
		if i > 0 && sh.flushOverdue(now) {
			sh.returnToInbox(items[i:])
			break
		}
		sh.handle(now, &items[i])
	}
	clear(items)
	if cap(items) > 1<<12 {
		items = nil // do not keep a huge inbox
	}
	sh.nextInbox = items
}

// returnToInbox returns inputs to the front of the inbox.
func (sh *shard) returnToInbox(items []input) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.inbox = slices.Insert(sh.inbox, 0, items...)
	sh.wakeUp()
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
	free  []int32 // unused ids
	freed []int32 // unused ids that events of the poller may still name
}

// add gives c an id.
func (t *connTable) add(c *conn) {
	if n := len(t.free); n > 0 {
		c.id = t.free[n-1]
		t.free = t.free[:n-1]
		t.byID[c.id] = c
		return
	}
	c.id = int32(len(t.byID))
	t.byID = append(t.byID, c)
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
