package socket

import (
	"container/list"
	"crypto/tls"
	"net/netip"
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/base/clientaddr"
	"github.com/ruedahq/rueda/internal/engine/socket/verifier"
	"github.com/ruedahq/rueda/internal/engine/web"
)

// readBufferSize is the size of the shard's read buffer, and the most that is read from one
// connection before the others are served.
const readBufferSize = 64 << 10

// Results of a read or write that are not a number of bytes.
const (
	ioEmpty   = -1 // try again when the socket is ready
	ioFailed  = -2
	ioUntried = -3 // of a write: not made yet
)

// noFD is the descriptor of a connection that is not on the event loop.
const noFD = -1

// eventLoop has the sockets of a shard: its listener, the poller of its connections, their
// handshakes and TLS.
type eventLoop struct {
	shard      *shard
	poller     *poller
	listener   int
	tlsConfig  *tls.Config // nil: no TLS
	headReader *headReader
	buffer     []byte      // for all reads
	rest       []pollEvent // of the poller, not handled yet
	readList   []*conn     // with more input than was read
	heads      list.List   // of *conn: their request is being read; oldest first
	ciphertext []byte      // for encrypted output

	reserveFD   int       // kept to refuse connections; -1: none
	retryAccept deadline  // when a paused listener resumes; 0: it is not paused
	loggedAt    time.Time // last log record of a failed accept
}

// run runs the event loop until quit is closed.
func (l *eventLoop) run() {
	sh := l.shard
	defer l.close()
	for {
		select {
		case <-sh.quit:
			return
		default:
		}
		list := l.waitEvents()
		sh.woken.Store(false)
		now := time.Now()
		l.handleEvents(now, list)
		sh.runOnce(now)
	}
}

// pendingEvents returns the events that were not handled yet, or else those of the poller.
func (l *eventLoop) pendingEvents() []pollEvent {
	if list := l.rest; len(list) > 0 {
		l.rest = nil
		return list
	}
	return l.poller.peek()
}

// waitEvents returns the pending events. It waits for some if the shard has nothing else to do.
func (l *eventLoop) waitEvents() []pollEvent {
	sh := l.shard
	list := l.pendingEvents()
	if len(list) > 0 || len(l.readList) > 0 || sh.woken.Load() {
		return list
	}
	timeout := time.Hour
	if next := sh.nextDeadline(); next != never {
		if timeout = time.Until(sh.server.time(next)); timeout <= 0 {
			return nil
		}
	}
	// From here on wakeUp ends the wait; an earlier call has set woken.
	sh.waiting.Store(true)
	if !sh.woken.Load() {
		list = l.poller.wait(timeout)
	}
	sh.waiting.Store(false)
	return list
}

// handleEvents handles events of the poller. If that takes long while published messages wait, the
// rest is handled after the flush.
func (l *eventLoop) handleEvents(now time.Time, list []pollEvent) {
	sh := l.shard
	for i := range list {
		if i > 0 && sh.flusher.overdue(now) {
			l.rest = slices.Clone(list[i:])
			return
		}
		switch id := list[i].Fd; id {
		case idWakeup:
		case idListener:
			l.accept(now)
		default:
			if c := sh.conns.byID[id]; c != nil {
				l.handleReady(now, c, list[i].Events)
			}
		}
	}
	sh.conns.recycle()
}

// handleReady handles the events of one connection.
func (l *eventLoop) handleReady(now time.Time, c *conn, events uint32) {
	sh := l.shard
	defer sh.recoverPanic(now, c)
	if events&eventsHangup != 0 {
		c.ext().hangupPending = true
	}
	if c.handshake.inTLSHandshake() {
		l.continueTLS(c)
		return
	}
	if events&eventsWritable != 0 && c.out != nil {
		sh.resumeWrite(now, c)
	}
	switch {
	case c.phase == phaseEnded:
	case events&eventsLost != 0 && c.inputBlocked():
		sh.end(c, false) // the peer is gone; drop the blocked input
	case events&eventsReadable != 0:
		l.receive(now, c)
	}
}

// readPendingConns reads the connections that had more input than the last iteration has read.
func (l *eventLoop) readPendingConns(now time.Time) {
	list := l.readList
	l.readList = nil
	for i, c := range list {
		if i > 0 && l.shard.flusher.overdue(now) {
			l.readList = append(l.readList, list[i:]...)
			return
		}
		c.readQueued = false
		l.readIfPending(now, c)
	}
}

func (l *eventLoop) readIfPending(now time.Time, c *conn) {
	defer l.shard.recoverPanic(now, c)
	if c.readPending && c.phase != phaseEnded {
		l.receive(now, c)
	}
}

// receive reads once from c. The poller is edge-triggered, so c is read again until the socket is
// empty. A read that returns less than the buffer shows that, except after an event of the end or
// of urgent data, where reads stop short.
func (l *eventLoop) receive(now time.Time, c *conn) {
	sh := l.shard
	if c.inputBlocked() {
		c.readPending = true // it is read when the session accepts messages again
		return
	}
	b := l.buffer
	l.ciphertext = l.ciphertext[:0]
	n := c.read(b)
	// With TLS a read returns at most one record.
	c.readPending = n > 0 && (n == len(b) || c.hangupPending || c.tls != nil)
	if c.tls != nil {
		l.writeAlert(now, c)
	}
	switch {
	case n == 0:
		sh.peerClosed(c)
	case n == ioFailed:
		sh.end(c, false)
	case n > 0 && c.phase == phaseHead:
		l.readHead(now, c, b[:n])
	case n > 0:
		sh.parse(now, c, b[:n])
	}
	sh.markDirty(c)
	l.queueRead(c)
}

// queueRead lists c for the next iteration, if its socket may have more input.
func (l *eventLoop) queueRead(c *conn) {
	if c.readPending && !c.readQueued && c.phase != phaseEnded && !c.inputBlocked() {
		c.readQueued = true
		l.readList = append(l.readList, c)
	}
}

// read returns the number of bytes read, 0 at the end, or ioEmpty or ioFailed.
func (c *conn) read(b []byte) int {
	if c.tls != nil {
		return c.tls.read(b)
	}
	return c.shard.kernel.read(c.fd, b)
}

// addSocket creates the connection of an accepted socket.
func (l *eventLoop) addSocket(now time.Time, fd int32, from netip.AddrPort) {
	sh := l.shard
	c := &conn{shard: sh, fd: fd, optional: new(optional)}
	c.handshake = &handshakeState{conn: c, peer: from, address: from.Addr(), key: clientaddr.Client(from.Addr())}
	sh.load.Add(1)
	sh.conns.add(c)
	defer sh.recoverPanic(now, c)
	sh.server.reach(c, stepAddSocket)
	c.handshake.headElem = l.heads.PushBack(c)
	sh.wheel.set(c, sh.server.deadline(now.Add(sh.server.cfg.HeadTimeout)))
	if sh.shutdown != nil || l.poller.watch(int(fd), c.id, watchConn) != nil {
		sh.end(c, false)
		return
	}
	if l.tlsConfig != nil && !l.startTLS(now, c) {
		sh.end(c, true)
		return
	}
	if l.heads.Len() > max(1, sh.server.cfg.MaxHeads/len(sh.server.shards)) {
		oldest := l.heads.Front().Value.(*conn)
		if oldest.tls == nil { // another goroutine may read a TLS handshake
			oldest.readPending = true // its request may have arrived
			l.readIfPending(now, oldest)
		}
		if oldest.phase == phaseHead {
			sh.end(oldest, true)
		}
	}
}

// watchUpgraded adds a connection to the poller whose handshake net/http has read. early is the
// input after it.
func (l *eventLoop) watchUpgraded(now time.Time, c *conn, early []byte) {
	sh := l.shard
	if c.phase == phaseEnded {
		return
	}
	if l.poller.watch(int(c.fd), c.id, watchConn) != nil {
		sh.end(c, false)
		return
	}
	sh.parse(now, c, early)
	c.readPending = true // earlier input gave an event to another poller
}

// readHead handles b as the next part of the request.
func (l *eventLoop) readHead(now time.Time, c *conn, b []byte) {
	sh := l.shard
	o := c.handshake
	sh.server.reach(c, stepHead)
	if o.head != nil {
		*o.head = append(*o.head, b...)
		b = *o.head
	}
	kind, size := l.headReader.read(b)
	switch kind {
	case headIncomplete:
		if o.head == nil {
			o.head = sh.server.buffers.get()
			*o.head = append(*o.head, b...)
		}
	case headUpgrade:
		l.checkHandshake(now, c, b, size)
	default:
		l.handOff(c, b)
	}
}

// endTLSWaiting ends the count of a TLS connection: its request was read, or it is closed.
func (l *eventLoop) endTLSWaiting(o *handshakeState) {
	l.shard.server.tlsLimiter.End(o.tlsWaiting)
	o.tlsWaiting = nil
}

// releaseHead releases what is kept while the request is read.
func (l *eventLoop) releaseHead(o *handshakeState) {
	l.endTLSWaiting(o)
	if o.headElem != nil {
		l.heads.Remove(o.headElem)
		o.headElem = nil
	}
	if o.head != nil {
		l.shard.server.buffers.put(o.head)
		o.head = nil
	}
}

// checkHandshake checks the handshake in the first size bytes of b. net/http refuses an invalid
// handshake. A handshake that exceeds the rate limit is refused here, at low cost.
func (l *eventLoop) checkHandshake(now time.Time, c *conn, b []byte, size int) {
	sh := l.shard
	s, o, r := sh.server, c.handshake, l.headReader
	hand, f := checkUpgrade(&r.request, s.cfg.Hosts, s.cfg.Origins, s.cfg.Scheme)
	if f != nil {
		l.handOff(c, b)
		return
	}
	if len(s.cfg.Proxies) > 0 {
		o.address = s.cfg.client(o.address, r.request.header)
		o.key = clientaddr.Client(o.address)
	}
	o.upgrade, o.requestID = hand, r.id
	o.mark = s.cfg.Env.Registry.Mark()
	known := s.knownToken(hand.token, o.address)
	if wait, ok := s.handshakeLimiter.Allow(s.handshakeKey(hand.token, known, o.address), now); !ok {
		l.refuse(now, c, s.handshakeLimiter.refusal(wait))
		return
	}
	switch {
	case hand.token == "":
		l.admit(now, c, b[size:])
		return
	case known != nil:
		l.admitVerified(now, c, known, b[size:])
		return
	}
	early := slices.Clone(b[size:])
	if o.head == nil {
		o.head = s.buffers.get()
	}
	*o.head = append((*o.head)[:0], early...)
	l.endTLSWaiting(o)
	o.verifying = true
	sh.verifyToken(c, hand.token)
}

// admitVerified continues a handshake after its token check.
func (l *eventLoop) admitVerified(now time.Time, c *conn, r *verifier.Result, early []byte) {
	c.handshake.verifying = false
	if r.Fault != nil {
		l.refuse(now, c, notVerified(r.Fault))
		return
	}
	c.handshake.identity = r.Identity
	l.admit(now, c, early)
}

// admit accepts a handshake and starts the session. early is the input after it.
func (l *eventLoop) admit(now time.Time, c *conn, early []byte) {
	sh := l.shard
	o := c.handshake
	if err := sh.server.acquireSlot(c); err != nil {
		l.refuse(now, c, unavailable("Too many open connections"))
		return
	}
	c.ensureControl().response = o.upgrade.appendSwitching(nil)
	sh.wheel.remove(c)
	head := o.head // early may be a part of it
	o.head = nil
	l.releaseHead(o)
	sh.startSession(now, c)
	sh.parse(now, c, early)
	if head != nil {
		sh.server.buffers.put(head)
	}
}

// refuse writes a refusal and closes the connection.
func (l *eventLoop) refuse(now time.Time, c *conn, f *refusal) {
	sh := l.shard
	id := c.handshake.requestID
	sh.wheel.remove(c)
	l.releaseHead(c.handshake)
	c.discardInput = true
	sh.beginClose(now, c, f.Append(nil, web.RequestID(id), sh.server.cfg.Secure))
}

// handOff passes the connection to net/http, with the bytes that were read.
func (l *eventLoop) handOff(c *conn, b []byte) {
	sh := l.shard
	h := handoff{fd: c.fd, peer: c.handshake.peer, tls: c.tls, early: slices.Clone(b)}
	if !sh.server.cfg.Proxies.Has(h.peer.Addr()) {
		h.key = clientaddr.Client(h.peer.Addr())
	}
	l.poller.unwatch(int(c.fd))
	l.releaseHead(c.handshake)
	c.fd = noFD
	sh.end(c, false)
	if !sh.server.requests.handOff(h, func() bool { return sh.server.hasMintedToken(h.early) }) {
		sh.kernel.close(h.fd, false)
	}
}
