package socket

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/internal/session"
	"github.com/ruedahq/rueda/internal/stream"
	"github.com/ruedahq/rueda/wire"
)

// inputKind tells what an input is, and which of its fields count.
type inputKind uint8

const (
	inputStart    inputKind = iota // a new connection
	inputData                      // data came from the peer
	inputEOF                       // nothing more comes from the peer
	inputWrote                     // n bytes were taken by the kernel; last, failed
	inputVerified                  // a token check is done: verdict
	inputNotice                    // notice for the session
	inputDismiss                   // all connections are to end: fault; conn is nil
)

// An input is what a shard is told from outside.
type input struct {
	kind    inputKind
	last    bool // the writer has nothing left
	failed  bool // and never will again
	n       int
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
	stream *stream.Shard
	wake   chan struct{} // something is in the inbox, or in the stream
	quit   chan struct{} // closed when the shard is to return
	load   atomic.Int64  // connections, for the choice of the lighter shard

	mu    sync.Mutex
	inbox []input

	// The rest belongs to the shard's goroutine.
	spare  []input
	conns  map[*conn]struct{}
	timers timers
	dirty  []*conn     // to be flushed at the end of the turn
	leave  *wire.Fault // why every connection is sent away; nil: none is
}

func newShard(s *Server) *shard {
	sh := &shard{
		server: s, log: s.cfg.Logger,
		wake: make(chan struct{}, 1), quit: make(chan struct{}),
		conns: make(map[*conn]struct{}),
	}
	sh.stream = s.cfg.Hub.NewShard(func(bool) { sh.rouse() })
	return sh
}

// rouse makes the shard take a turn. It never blocks.
func (sh *shard) rouse() {
	select {
	case sh.wake <- struct{}{}:
	default:
	}
}

// post puts an input in the inbox. It never blocks: what a connection may have
// there at once is bounded by its reader and writer, which wait for the shard.
func (sh *shard) post(in input) {
	sh.mu.Lock()
	sh.inbox = append(sh.inbox, in)
	first := len(sh.inbox) == 1
	sh.mu.Unlock()
	if first {
		sh.rouse()
	}
}

// run takes turns until quit is closed.
func (sh *shard) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if next, ok := sh.timers.next(); ok {
			timer.Reset(time.Until(next))
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

// turn handles all that has come up to now, and then writes.
func (sh *shard) turn(now time.Time) {
	sh.mu.Lock()
	items := sh.inbox
	sh.inbox = sh.spare[:0]
	sh.mu.Unlock()
	for i := range items {
		if items[i].conn == nil {
			sh.dismissAll(now, items[i].fault)
			continue
		}
		sh.handle(now, &items[i])
	}
	clear(items)
	if cap(items) > 1<<12 {
		items = nil // after a storm
	}
	sh.spare = items
	for c := sh.timers.due(now); c != nil; c = sh.timers.due(now) {
		sh.expire(now, c)
		sh.touch(c)
	}
	sh.stream.Turn()
	for sub := sh.stream.Next(); sub != nil; sub = sh.stream.Next() {
		sh.news(sub)
	}
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

// news is called for each subscriber that has something new to read.
func (sh *shard) news(sub *stream.Subscriber) {
	c := sub.Key().(*conn)
	if !c.writing { // or else its writer will call for more
		sh.touch(c)
	}
}
