package socket

import (
	"container/list"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/internal/session"
	"github.com/ruedahq/rueda/wire"
)

// phase is where a connection is in its life.
type phase uint8

const (
	phaseHead    phase = iota // its request is being read, or its session has not begun
	phaseOpen                 // the session lives
	phaseClosing              // the session is over, the closing handshake runs
	phaseEnded                // nothing of it is used any more
)

// A conn is one connection. It comes in two kinds: a line is a socket on its shard's
// poller, and a pump is a net.Conn with a goroutine to read and one to write. The shard's
// goroutine owns all of it but what open and pump say.
//
// There may be a million of them. What few have at a time is behind a pointer.
type conn struct {
	shard *shard
	sess  session.Session // from phaseOpen on

	next *conn // in the shard's wheel
	back **conn
	due  moment

	id    int32 // place in the shard's table
	fd    int32 // noLine: a pump
	phase phase

	seated bool // has a seat
	deaf   bool // input is thrown away: after a violation of framing
	eof    bool // the peer has closed, by a frame or by its socket
	dirty  bool // in the shard's list of connections to flush
	unread bool // the line may have more than was read
	queued bool // in the shard's list of lines to read

	format wire.Format // agreed on

	out     *outlet // what the socket did not take at once; nil: it is ready for more
	*extras         // read at will, written by way of extra
}

// extras are what a line in the clear has none of while all goes well.
type extras struct {
	open  *opening     // until it has authenticated
	in    *intake      // of input that came in part; nil between messages
	aside *aside       // frames of our own
	pump  *pump        // nil: a line
	tls   *secured     // nil: in the clear
	check *atomic.Bool // calls off the check of a token that is out
	wary  bool         // its end, or something out of band, was told of
}

// extra is where extras are written: those which connections without any share are not.
func (c *conn) extra() *extras {
	if c.extras == &c.shard.nothing {
		c.extras = new(extras)
	}
	return c.extras
}

// tidy lets go of extras that are not there any more.
func (c *conn) tidy() {
	if *c.extras == (extras{}) {
		c.extras = &c.shard.nothing
	}
}

// An opening is what is kept of a connection until its peer has authenticated.
type opening struct {
	conn    *conn
	peer    netip.AddrPort // of a line, as it was accepted
	address netip.Addr     // of the client, which is not the peer behind a proxy
	key     netip.Prefix   // the address as limits count it
	seat    *list.Element  // guarded by seats.mu

	// Of a line whose request is being read.
	head     *[]byte       // as far as it has come; nil: nothing
	place    *list.Element // among the shard's heads
	shaking  bool          // the handshake of TLS is not over
	checking bool          // the token of the handshake is being checked
	hand     handshake
	mark     session.Mark
	identity *session.Identity // whose token that is; nil: none was sent
	id       string            // X-Request-Id

	positions bool // see Peer
}

// An intake holds what of a connection's input could not be used up at once.
type intake struct {
	parser Parser
	split  bool   // a message is in parser
	rest   []byte // not parsed yet
}

// An outlet holds what of a connection's output its socket has not taken.
type outlet struct {
	buf    *[]byte // nil: a pump's writer has it
	at     int     // of buf: what was taken
	before int     // bytes still to be taken that come before the session's
	own    int     // of the session, likewise
	fresh  bool    // the session was not told yet that own was sent
	plain  int     // of a secured line: bytes still to be taken, before encryption
	sealed int     // and after it; 0: not a secured line
	piped  int     // of a pump: bytes still to be taken

	uttered bool // TLS has said something by itself
}

// aside are frames that are not the session's, and the end they lead to.
type aside struct {
	greeting []byte    // the answer to the handshake
	farewell []byte    // the last bytes of the connection, once the session is over
	closeBy  time.Time // the connection ends then at the latest; zero: no closing yet
}

// Post hands a notice of the registry to the session. Any goroutine may call it.
func (c *conn) Post(n session.Notice) {
	c.shard.post(input{kind: inputNotice, conn: c, notice: n})
}

func (o *opening) isShaking() bool { return o != nil && o.shaking }

// own are the connection's own frames, to be changed.
func (c *conn) own() *aside {
	if c.aside == nil {
		c.extra().aside = new(aside)
	}
	return c.aside
}

// closeBy is when the connection ends at the latest; zero: it is not closing.
func (c *conn) closeBy() time.Time {
	if c.aside == nil {
		return time.Time{}
	}
	return c.aside.closeBy
}

func (c *conn) closing() bool { return !c.closeBy().IsZero() }

// busy says that input is to wait: for the check of a token.
func (c *conn) busy() bool {
	switch c.phase {
	case phaseHead:
		return c.open.checking
	case phaseOpen:
		return c.sess.Busy()
	}
	return false
}

// holds says that c takes no input now.
func (c *conn) holds() bool { return c.busy() || c.in != nil && len(c.in.rest) > 0 || c.choked() }

// choked says that an answer waits behind a full socket, ours to a ping or that of TLS to a new
// key. Who asks without listening is not asked for more.
func (c *conn) choked() bool {
	return c.out != nil && (c.out.uttered || c.sess.HoldsFrame())
}

// address is the peer's, for the log.
func (c *conn) address() netip.Addr {
	switch {
	case c.open != nil:
		return c.open.address
	case c.fd != noLine:
		return c.shard.kernel.peer(c.fd)
	}
	return c.pump.address()
}

// release lets go of the transport. With reset, what the peer has not taken is
// thrown away.
func (c *conn) release(reset bool) {
	switch {
	case c.pump != nil:
		c.pump.release(reset)
		return
	case c.fd == noLine: // it is net/http's now
		return
	case c.tls != nil && c.tls.abandon():
		c.shard.door.poller.forget(int(c.fd))
		return
	case c.tls != nil && !c.open.isShaking() && !reset:
		c.shard.farewell(c)
	}
	c.shard.kernel.close(c.fd, reset)
}

// closeWrite tells the peer that nothing more comes, where the transport can.
func (c *conn) closeWrite() {
	switch {
	case c.pump != nil:
		c.pump.closeWrite()
	case c.tls != nil:
		c.shard.farewell(c)
		fallthrough
	default:
		c.shard.kernel.shutdown(c.fd)
	}
}
