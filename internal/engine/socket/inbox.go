package socket

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/internal/engine/socket/verifier"
	"github.com/ruedahq/rueda/wire"
)

// inputKind is the kind of an input. It determines which fields are set.
type inputKind uint8

const (
	inputStart      inputKind = iota // a new connection
	inputData                        // data from the peer of a netConn
	inputMessage                     // data is a text message of a LocalConn
	inputEOF                         // end of the input of a netConn; failed: of its output too
	inputWrote                       // n bytes of a netConn were written; last, failed
	inputSocket                      // an accepted socket: n is its descriptor, conn is nil
	inputTLSDone                     // a TLS handshake is over: failed
	inputTLSEvicted                  // a newer TLS connection of the address has taken its place
	inputVerified                    // a token check is done: result
	inputEvent                       // an event for the session
	inputCloseAll                    // all connections are to close: fault; conn is nil
	inputTask                        // task is to be done; conn is nil
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
	result *verifier.Result
	fault  *wire.Fault
	task   func(now time.Time)
	event  session.Event
}

// inbox is the queue of inputs from other goroutines to a shard.
type inbox struct {
	mu     sync.Mutex
	items  []input
	closed bool // discards inputs

	spare []input // of the last take, for reuse; owned by the shard's goroutine
}

// add adds an input. first means that the inbox was empty, closed that it accepts no inputs.
func (b *inbox) add(in input) (first, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false, true
	}
	b.items = append(b.items, in)
	return len(b.items) == 1, false
}

// take removes all inputs. The caller returns their memory to release.
func (b *inbox) take() []input {
	b.mu.Lock()
	defer b.mu.Unlock()
	items := b.items
	b.items = b.spare[:0]
	return items
}

// putBack puts inputs to the front.
func (b *inbox) putBack(items []input) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.items = slices.Insert(b.items, 0, items...)
}

// release keeps the memory of handled inputs for reuse.
func (b *inbox) release(items []input) {
	clear(items)
	if cap(items) > 1<<12 {
		items = nil // do not keep a huge inbox
	}
	b.spare = items
}

// close accepts no more inputs and returns those that were not handled.
func (b *inbox) close() []input {
	b.mu.Lock()
	defer b.mu.Unlock()
	items := b.items
	b.items, b.closed = nil, true
	return items
}
