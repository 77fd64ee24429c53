package socket

import (
	"container/list"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/internal/deflate"
	"github.com/ruedahq/rueda/internal/session"
	"github.com/ruedahq/rueda/internal/stream"
	"github.com/ruedahq/rueda/wire"
)

// inputKind tells what an input is, and which of its fields count.
type inputKind uint8

const (
	inputStart    inputKind = iota // a new pump
	inputData                      // data came from the peer of a pump
	inputEOF                       // nothing more comes from it
	inputWrote                     // n bytes of it were taken by the kernel; last, failed
	inputLine                      // a new line: n is its socket, conn is nil
	inputSecured                   // the TLS handshake of a line is over: failed
	inputVerified                  // a token check is done: verdict
	inputNotice                    // notice for the session
	inputDismiss                   // all connections are to end: fault; conn is nil
)

// An input is what a shard is told from outside.
type input struct {
	kind    inputKind
	last    bool // the writer has nothing left
	failed  bool // and never will again, or it went wrong
	n       int
	from    netip.AddrPort // of a new line
	conn    *conn
	data    []byte
	verdict *verdict
	fault   *wire.Fault
	notice  session.Notice
}

// A shard is one goroutine that owns its connections and their sessions.
type shard struct {
	server *Server
	log    *slog.Logger
	kernel *kernel
	stream *stream.Shard
	door   *door         // where lines come in and are watched; nil: all connections are pumps
	wake   chan struct{} // without a door: something is in the inbox, or in the stream
	quit   chan struct{} // closed when the shard is to return
	load   atomic.Int64  // connections, for the choice of the lighter shard

	roused atomic.Bool // there is something to do
	asleep atomic.Bool // nobody looks, unless the door's bell rings
	news   atomic.Bool // something was published since the last sweep
	urgent atomic.Bool // so much that it is not to wait for more

	mu    sync.Mutex
	inbox []input
	shut  bool // nobody looks into it any more

	// The rest belongs to the shard's goroutine.
	spare []input
	table []*conn // by id
	free  []int32 // ids that no connection has
	left  []int32 // likewise since the last look at the poller, whose events may still name them
	wheel wheel
	dirty []*conn // to be flushed at the end of the turn
	// postponed are connections to be flushed again after the others. They are marked as dirty.
	postponed []*conn
	unread    []*conn     // lines to be read again without being asked
	heads     list.List   // of *conn: lines whose request is still being read, by arrival
	nothing   extras      // of all connections that have none
	leave     *wire.Fault // why every connection is sent away; nil: none is

	pong    [2 + maxControl]byte // to a ping, on its way to the session
	parser  Parser               // for connections between messages
	bundle  *bundle              // nil: each write is a call of its own
	scratch []byte               // for output on its way, of the session alone
	before  []byte               // and with frames of our own
	sealed  []byte               // and encrypted
	swept   time.Time            // the last sweep began
	took    time.Duration        // and lasted
	putOff  time.Time            // a sweep waits for a commit, until then at most
	writes  uint64               // of this turn
	counts  counts

	inflater deflate.Decompressor // of all its compressed input
}

// counts are a shard's figures for Stats, set by its goroutine alone.
type counts struct{ sweeps, writes atomic.Uint64 }

func newShard(s *Server) *shard {
	sh := &shard{
		server: s, log: s.cfg.Logger, kernel: &s.kernel,
		wake: make(chan struct{}, 1), quit: make(chan struct{}),
		wheel:   wheel{exact: true, soon: never},
		scratch: make([]byte, 0, gatherSize+gatherSize/4),
	}
	sh.stream = s.cfg.Hub.NewShard(sh.published)
	return sh
}

// published is told, under the hub's lock, that there is something to sweep.
func (sh *shard) published(urgent bool) {
	if urgent {
		sh.urgent.Store(true)
	}
	sh.news.Store(true)
	sh.rouse()
}

// rouse makes the shard take a turn. It never blocks.
func (sh *shard) rouse() {
	if sh.door != nil {
		if !sh.roused.Swap(true) && sh.asleep.Load() {
			sh.door.poller.ring()
		}
		return
	}
	select {
	case sh.wake <- struct{}{}:
	default:
	}
}

// post puts an input in the inbox. It never blocks: what a connection may have
// there at once is bounded by its reader and writer, which wait for the shard.
func (sh *shard) post(in input) {
	sh.mu.Lock()
	if sh.shut && in.kind == inputLine {
		sh.mu.Unlock()
		sh.kernel.close(int32(in.n), true)
		return
	}
	sh.inbox = append(sh.inbox, in)
	first := len(sh.inbox) == 1
	sh.mu.Unlock()
	if first {
		sh.rouse()
	}
}

// stop makes run return.
func (sh *shard) stop() {
	close(sh.quit)
	sh.rouse()
}

// run takes turns until quit is closed.
func (sh *shard) run() {
	if sh.door != nil {
		sh.runLoop()
		return
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if next := sh.next(); next != never {
			timer.Reset(time.Until(sh.server.time(next)))
		} else {
			timer.Stop()
		}
		select {
		case <-sh.wake:
		case <-timer.C:
		case <-sh.quit:
			return
		}
		sh.turn(time.Now())
	}
}

// next is when there is something to do of the shard's own accord.
func (sh *shard) next() moment {
	next := sh.wheel.next()
	if sh.door != nil && sh.door.again != 0 {
		next = min(next, sh.door.again)
	}
	if sh.news.Load() {
		next = min(next, sh.server.moment(sh.sweepAt()))
	}
	return next
}

// turn handles all that has come up to now, and then writes.
func (sh *shard) turn(now time.Time) {
	sh.takeInbox(now)
	sh.openAgain(now)
	sh.readAgain(now)
	sh.wheel.due(sh.server.moment(now), func(c *conn) {
		sh.expire(now, c)
		sh.touch(c)
	})
	sh.flushDirty(now)
	if sh.news.Load() && !now.Before(sh.sweepAt()) {
		sh.sweep(now)
	}
	sh.flushPostponed(now)
	sh.counts.writes.Add(sh.writes)
	sh.writes = 0
}

func (sh *shard) takeInbox(now time.Time) {
	sh.mu.Lock()
	items := sh.inbox
	sh.inbox = sh.spare[:0]
	sh.mu.Unlock()
	for i := range items {
		sh.handle(now, &items[i])
	}
	clear(items)
	if cap(items) > 1<<12 {
		items = nil // after a storm
	}
	sh.spare = items
}

func (sh *shard) flushDirty(now time.Time) {
	for i := 0; i < len(sh.dirty); i++ {
		sh.flush(now, sh.dirty[i])
	}
	clear(sh.dirty)
	sh.dirty = sh.dirty[:0]
}

// touch puts c among the connections to flush in this turn.
func (sh *shard) touch(c *conn) {
	if !c.dirty && c.phase != phaseEnded {
		c.dirty = true
		sh.dirty = append(sh.dirty, c)
	}
}

// enter gives c a place in the table.
func (sh *shard) enter(c *conn) {
	if n := len(sh.free); n > 0 {
		c.id = sh.free[n-1]
		sh.free = sh.free[:n-1]
		sh.table[c.id] = c
		return
	}
	c.id = int32(len(sh.table))
	sh.table = append(sh.table, c)
}

// depart takes it out.
func (sh *shard) depart(c *conn) {
	sh.table[c.id] = nil
	if sh.door == nil {
		sh.free = append(sh.free, c.id)
	} else {
		sh.left = append(sh.left, c.id)
	}
}
