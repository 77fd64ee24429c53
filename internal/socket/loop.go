package socket

import (
	"crypto/tls"
	"net/netip"
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/clientaddr"
	"github.com/ruedahq/rueda/internal/web"
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

// eventLoop is the listener of a shard, and the poller of its connections.
type eventLoop struct {
	poller     *poller
	listener   int
	tlsConfig  *tls.Config // nil: no TLS
	headReader *headReader
	buffer     []byte      // for all reads
	rest       []pollEvent // of the poller, not handled yet

	reserveFD   int       // kept to refuse connections; -1: none
	retryAccept deadline  // when a paused listener resumes; 0: it is not paused
	loggedAt    time.Time // last log record of a failed accept
}

// runLoop runs the event loop until quit is closed.
func (sh *shard) runLoop() {
	defer sh.closeLoop()
	for {
		select {
		case <-sh.quit:
			return
		default:
		}
		list := sh.waitEvents()
		sh.woken.Store(false)
		now := time.Now()
		sh.handleEvents(now, list)
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
func (sh *shard) waitEvents() []pollEvent {
	list := sh.loop.pendingEvents()
	if len(list) > 0 || len(sh.readList) > 0 || sh.woken.Load() {
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
		list = sh.loop.poller.wait(timeout)
	}
	sh.waiting.Store(false)
	return list
}

// handleEvents handles events of the poller. If that takes long while published messages wait, the
// rest is handled after the flush.
func (sh *shard) handleEvents(now time.Time, list []pollEvent) {
	for i := range list {
		if i > 0 && sh.flushOverdue(now) {
			sh.loop.rest = slices.Clone(list[i:])
			return
		}
		switch id := list[i].Fd; id {
		case idWakeup:
		case idListener:
			sh.accept(now)
		default:
			if c := sh.conns.byID[id]; c != nil {
				sh.handleReady(now, c, list[i].Events)
			}
		}
	}
	sh.conns.recycle()
}

// handleReady handles the events of one connection.
func (sh *shard) handleReady(now time.Time, c *conn, events uint32) {
	defer sh.recoverPanic(now, c)
	if events&eventsHangup != 0 {
		c.ext().hangupPending = true
	}
	if c.handshake.inTLSHandshake() {
		sh.continueTLS(c)
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
		sh.receive(now, c)
	}
}

// readPendingConns reads the connections that had more input than the last iteration has read.
func (sh *shard) readPendingConns(now time.Time) {
	list := sh.readList
	sh.readList = nil
	for i, c := range list {
		if i > 0 && sh.flushOverdue(now) {
			sh.readList = append(sh.readList, list[i:]...)
			return
		}
		c.readQueued = false
		sh.readIfPending(now, c)
	}
}

func (sh *shard) readIfPending(now time.Time, c *conn) {
	defer sh.recoverPanic(now, c)
	if c.readPending && c.phase != phaseEnded {
		sh.receive(now, c)
	}
}

// receive reads once from c. The poller is edge-triggered, so c is read again until the socket is
// empty. A read that returns less than the buffer shows that, except after an event of the end or
// of urgent data, where reads stop short.
func (sh *shard) receive(now time.Time, c *conn) {
	if c.inputBlocked() {
		c.readPending = true // it is read when the session accepts messages again
		return
	}
	b := sh.loop.buffer
	sh.ciphertext = sh.ciphertext[:0]
	n := c.read(b)
	// With TLS a read returns at most one record.
	c.readPending = n > 0 && (n == len(b) || c.hangupPending || c.tls != nil)
	if c.tls != nil {
		sh.writeAlert(now, c)
	}
	switch {
	case n == 0:
		sh.peerClosed(c)
	case n == ioFailed:
		sh.end(c, false)
	case n > 0 && c.phase == phaseHead:
		sh.readHead(now, c, b[:n])
	case n > 0:
		sh.parse(now, c, b[:n])
	}
	sh.markDirty(c)
	sh.queueRead(c)
}

// queueRead lists c for the next iteration, if its socket may have more input.
func (sh *shard) queueRead(c *conn) {
	if c.readPending && !c.readQueued && c.phase != phaseEnded && !c.inputBlocked() {
		c.readQueued = true
		sh.readList = append(sh.readList, c)
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
func (sh *shard) addSocket(now time.Time, fd int32, from netip.AddrPort) {
	c := &conn{shard: sh, fd: fd, optional: new(optional)}
	c.handshake = &handshakeState{conn: c, peer: from, address: from.Addr(), key: clientaddr.Client(from.Addr())}
	sh.load.Add(1)
	sh.conns.add(c)
	defer sh.recoverPanic(now, c)
	sh.server.reach(c, stepAddSocket)
	c.handshake.headElem = sh.heads.PushBack(c)
	sh.wheel.set(c, sh.server.deadline(now.Add(sh.server.cfg.HeadTimeout)))
	if sh.shutdown != nil || sh.loop.poller.watch(int(fd), c.id, watchConn) != nil {
		sh.end(c, false)
		return
	}
	if sh.loop.tlsConfig != nil && !sh.startTLS(now, c) {
		sh.end(c, true)
		return
	}
	if sh.heads.Len() > max(1, sh.server.cfg.MaxHeads/len(sh.server.shards)) {
		sh.end(sh.heads.Front().Value.(*conn), true)
	}
}

// watchUpgraded adds a connection to the poller whose handshake net/http has read. early is the
// input after it.
func (sh *shard) watchUpgraded(now time.Time, c *conn, early []byte) {
	if c.phase == phaseEnded {
		return
	}
	if sh.loop.poller.watch(int(c.fd), c.id, watchConn) != nil {
		sh.end(c, false)
		return
	}
	sh.parse(now, c, early)
	c.readPending = true // earlier input gave an event to another poller
}

// readHead handles b as the next part of the request.
func (sh *shard) readHead(now time.Time, c *conn, b []byte) {
	o := c.handshake
	sh.server.reach(c, stepHead)
	if o.head != nil {
		*o.head = append(*o.head, b...)
		b = *o.head
	}
	kind, size := sh.loop.headReader.read(b)
	switch kind {
	case headIncomplete:
		if o.head == nil {
			o.head = sh.server.buffers.get()
			*o.head = append(*o.head, b...)
		}
	case headUpgrade:
		sh.checkHandshake(now, c, b, size)
	default:
		sh.handOff(c, b)
	}
}

// releaseHead releases what is kept while the request is read.
func (sh *shard) releaseHead(o *handshakeState) {
	if o.tlsCounted {
		sh.server.tlsLimiter.End(o.peer.Addr())
		o.tlsCounted = false
	}
	if o.headElem != nil {
		sh.heads.Remove(o.headElem)
		o.headElem = nil
	}
	if o.head != nil {
		sh.server.buffers.put(o.head)
		o.head = nil
	}
}

// checkHandshake checks the handshake in the first size bytes of b. net/http refuses an invalid
// one; one that exceeds the rate limit is refused here at low cost.
func (sh *shard) checkHandshake(now time.Time, c *conn, b []byte, size int) {
	s, o, r := sh.server, c.handshake, sh.loop.headReader
	hand, f := checkUpgrade(&r.request, s.cfg.Hosts, s.cfg.Origins)
	if f != nil {
		sh.handOff(c, b)
		return
	}
	if len(s.cfg.Proxies) > 0 {
		o.address = s.cfg.client(o.address, r.request.header)
		o.key = clientaddr.Client(o.address)
	}
	o.upgrade, o.requestID = hand, r.id
	if wait, ok := s.handshakeLimiter.Allow(o.address, now); !ok {
		sh.refuse(now, c, s.handshakeLimiter.refusal(wait))
		return
	}
	if hand.token == "" {
		sh.admit(now, c, b[size:])
		return
	}
	o.mark = s.cfg.Env.Registry.Mark()
	if s.cfg.Env.Known != nil {
		if identity, fault, ok := s.cfg.Env.Known(hand.token); ok {
			sh.admitVerified(now, c, &result{identity, fault}, b[size:])
			return
		}
	}
	early := slices.Clone(b[size:])
	if o.head == nil {
		o.head = s.buffers.get()
	}
	*o.head = append((*o.head)[:0], early...)
	o.verifying = true
	sh.verifyToken(c, hand.token)
}

// admitVerified continues a handshake after its token check.
func (sh *shard) admitVerified(now time.Time, c *conn, r *result, early []byte) {
	c.handshake.verifying = false
	if r.fault != nil {
		sh.refuse(now, c, notVerified(r.fault))
		return
	}
	c.handshake.identity = r.identity
	sh.admit(now, c, early)
}

// admit accepts a handshake and starts the session. early is the input after it.
func (sh *shard) admit(now time.Time, c *conn, early []byte) {
	o := c.handshake
	if err := sh.server.acquireSlot(c); err != nil {
		sh.refuse(now, c, noSlot(err))
		return
	}
	c.ensureControl().response = o.upgrade.appendSwitching(nil)
	sh.wheel.remove(c)
	head := o.head // early may be a part of it
	o.head = nil
	sh.releaseHead(o)
	sh.startSession(now, c)
	sh.parse(now, c, early)
	if head != nil {
		sh.server.buffers.put(head)
	}
}

// refuse writes a refusal and closes the connection.
func (sh *shard) refuse(now time.Time, c *conn, f *refusal) {
	id := c.handshake.requestID
	sh.wheel.remove(c)
	sh.releaseHead(c.handshake)
	c.discardInput = true
	sh.beginClose(now, c, f.Append(nil, web.RequestID(id), sh.server.cfg.Secure))
}

// handOff passes the connection to net/http, with the bytes that were read.
func (sh *shard) handOff(c *conn, b []byte) {
	h := handoff{fd: c.fd, peer: c.handshake.peer, tls: c.tls, early: slices.Clone(b)}
	sh.loop.poller.unwatch(int(c.fd))
	sh.releaseHead(c.handshake)
	c.fd = noFD
	sh.end(c, false)
	if !sh.server.requests.handOff(h) {
		sh.kernel.close(h.fd, false)
	}
}
