package socket

import (
	"container/list"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/internal/engine/tlslimit"
	"github.com/ruedahq/rueda/wire"
)

// phase is a stage in the life of a connection.
type phase uint8

const (
	phaseHead    phase = iota // reads the request; no session yet
	phaseOpen                 // has a session
	phaseClosing              // the session is over; the closing handshake runs
	phaseEnded                // released
)

// conn is one connection. It is on the event loop if fd is set, and otherwise has a netConn. The
// shard's goroutine owns all of it except for the fields that handshakeState and netConn name.
//
// There may be a million of them, so state that few need at a time is behind a pointer.
type conn struct {
	shard *shard
	sess  session.Session // valid from phaseOpen on

	next     *conn // in the wheel of the shard
	back     **conn
	deadline deadline

	spent deadline // when the whole input budget is available again

	id    int32 // index in the table of the shard
	fd    int32 // noFD: not on the event loop
	phase phase

	hasSlot      bool // holds a connection slot
	discardInput bool // ignore input, after a violation of framing
	peerClosed   bool // the peer has sent a close frame or closed its socket
	dirty        bool // in the list of connections to flush
	readPending  bool // the socket may have more input
	readQueued   bool // in the list of connections to read

	format wire.Format // of the server's messages

	out       *writeBuffer // output that the socket has not accepted; nil: none
	*optional              // changed through ext only
}

// optional is state that an authenticated connection without TLS does not have while its socket
// keeps up.
type optional struct {
	handshake     *handshakeState // nil once authenticated
	in            *readBuffer     // partial input; nil between messages
	control       *control        // frames that are not the session's
	netConn       *netConn        // nil: on the event loop
	tls           *tlsConn        // nil: no TLS
	cancelVerify  *atomic.Bool    // set to skip the pending token check
	pausedUntil   deadline        // when c is read again, see chargeInput; 0: it is not paused
	hangupPending bool            // the poller has reported the end or urgent data
}

// ext returns the optional state for writing.
func (c *conn) ext() *optional {
	if c.optional == &c.shard.noOptional {
		c.optional = new(optional)
	}
	return c.optional
}

// releaseExt releases the optional state if it is empty.
func (c *conn) releaseExt() {
	if *c.optional == (optional{}) {
		c.optional = &c.shard.noOptional
	}
}

// handshakeState is the state of a connection until it has authenticated.
type handshakeState struct {
	conn    *conn
	peer    netip.AddrPort // as accepted; event loop only
	address netip.Addr     // of the client; differs from peer behind a proxy
	key     netip.Prefix   // that limits count by

	slot, addressSlot *list.Element // guarded by connSlots.mu

	evicted bool // its slot went to another connection: the closing handshake does not wait for the peer

	// Event loop only, while the request is read.
	head           *[]byte           // incomplete request; nil: none
	headElem       *list.Element     // in eventLoop.heads
	tlsWaiting     *tlslimit.Waiting // of tlsLimiter; nil: not counted
	tlsHandshaking bool              // the TLS handshake is not over
	verifying      bool              // the Bearer token is being checked
	upgrade        upgrade
	mark           session.Mark
	identity       *session.Identity // of the Bearer token; nil: none was sent
	requestID      string            // from X-Request-Id
}

// readBuffer holds input of a connection that was not used yet.
type readBuffer struct {
	parser    Parser
	inMessage bool   // parser holds a part of a message
	rest      []byte // not parsed yet
}

// writeBuffer holds output of a connection that its socket has not accepted. Counts are bytes still
// to be written.
type writeBuffer struct {
	buf          *[]byte // nil: the writer of the netConn has it
	sent         int     // bytes of buf that were written
	prefixBytes  int     // before the output of the session
	sessionBytes int     // output of the session
	unreported   bool    // sessionBytes were not reported to the session yet
	plainBytes   int     // with TLS: before encryption
	cipherBytes  int     // with TLS: after it; 0: no TLS
	unwritten    int     // of a netConn

	tlsPending bool // contains a record of TLS itself
}

// control holds frames that are not the session's, and the deadline of the close.
type control struct {
	response      []byte    // to the handshake
	lastFrames    []byte    // of the connection, after the session is over
	closeDeadline time.Time // when the connection is reset; zero: it is not closing
}

// Post passes an event of the registry to the session. Any goroutine may call it.
func (c *conn) Post(e session.Event) {
	c.shard.post(input{kind: inputEvent, conn: c, event: e})
}

func (o *handshakeState) inTLSHandshake() bool { return o != nil && o.tlsHandshaking }

// ensureControl returns the control frames of c for writing.
func (c *conn) ensureControl() *control {
	if c.control == nil {
		c.ext().control = new(control)
	}
	return c.control
}

// closeDeadline returns when the connection is reset; zero: it is not closing.
func (c *conn) closeDeadline() time.Time {
	if c.control == nil {
		return time.Time{}
	}
	return c.control.closeDeadline
}

// closing reports whether the connection is closing.
func (c *conn) closing() bool { return !c.closeDeadline().IsZero() }

// verifying reports whether input must wait for a token check.
func (c *conn) verifying() bool {
	switch c.phase {
	case phaseHead:
		return c.handshake.verifying
	case phaseOpen:
		return c.sess.Busy()
	}
	return false
}

// inputBlocked reports whether c accepts no input now.
func (c *conn) inputBlocked() bool {
	return c.verifying() || c.in != nil && len(c.in.rest) > 0 || c.unread()
}

// unread reports whether nothing is read from c: it is paused, or a pong or a TLS record waits for
// a full socket. The shard does not read from a peer that does not read its answers.
func (c *conn) unread() bool {
	return c.paused() || c.out != nil && (c.out.tlsPending || c.sess.HoldsFrame())
}

// address returns the client's address, for the log.
func (c *conn) address() netip.Addr {
	switch {
	case c.handshake != nil:
		return c.handshake.address
	case c.fd != noFD:
		return c.shard.kernel.peer(c.fd)
	}
	return c.netConn.address()
}

// release closes the transport. With reset, unsent output is discarded.
func (c *conn) release(reset bool) {
	switch {
	case c.netConn != nil:
		c.netConn.release(reset)
		return
	case c.fd == noFD: // net/http has it
		return
	case c.tls != nil && c.tls.abandon():
		c.shard.loop.poller.unwatch(int(c.fd))
		return
	case c.tls != nil && !c.handshake.inTLSHandshake() && !reset:
		c.shard.loop.closeNotify(c)
	}
	c.shard.kernel.close(c.fd, reset)
}

// closeWrite closes the sending half, if the transport can.
func (c *conn) closeWrite() {
	switch {
	case c.netConn != nil:
		c.netConn.closeWrite()
	case c.tls != nil:
		c.shard.loop.closeNotify(c)
		fallthrough
	default:
		c.shard.kernel.shutdown(c.fd)
	}
}
