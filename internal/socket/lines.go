package socket

import (
	"crypto/tls"
	"net/netip"
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/clientaddr"
)

// readAtOnce is the shard's read buffer, and the most that one connection is read of before
// the others have had their turn.
const readAtOnce = 64 << 10

// What reading a line gives instead of a number of bytes.
const (
	lineEmpty   = -1 // nothing is there yet
	lineBroken  = -2
	lineUntried = -3 // of a write: it is still to be made
)

// noLine is the descriptor of a connection that has none of its own.
const noLine = -1

// A door is where the lines of a shard come in, and where it waits for them.
type door struct {
	poller   *poller
	listener int
	secure   *tls.Config // nil: in the clear
	reader   *headReader
	buffer   []byte // for whatever is read

	spare  int       // a descriptor in reserve
	again  moment    // the listener rests until then; 0: it does not
	logged time.Time // that connections cannot be accepted, the last time
}

// runLoop takes turns until quit is closed, and waits at the door between them.
func (sh *shard) runLoop() {
	defer sh.closeDoor()
	for {
		select {
		case <-sh.quit:
			return
		default:
		}
		list := sh.await()
		sh.roused.Store(false)
		now := time.Now()
		sh.events(now, list)
		sh.turn(now)
	}
}

// await waits for something to do, if there is nothing.
func (sh *shard) await() []pollEvent {
	list := sh.door.poller.peek()
	if len(list) > 0 || len(sh.unread) > 0 || sh.roused.Load() {
		return list
	}
	patience := time.Hour
	if next := sh.next(); next != never {
		if patience = time.Until(sh.server.time(next)); patience <= 0 {
			return nil
		}
	}
	// Whoever rouses from here on rings the bell, and whoever did before is seen.
	sh.asleep.Store(true)
	if !sh.roused.Load() {
		list = sh.door.poller.wait(patience)
	}
	sh.asleep.Store(false)
	return list
}

// events handles what the poller has to tell.
func (sh *shard) events(now time.Time, list []pollEvent) {
	for i := range list {
		switch id := list[i].Fd; id {
		case idBell:
		case idListener:
			sh.accept(now)
		default:
			if c := sh.table[id]; c != nil {
				sh.ready(now, c, list[i].Events)
			}
		}
	}
	sh.free = append(sh.free, sh.left...)
	sh.left = sh.left[:0]
}

// ready is told that a line may be read, or written, or both.
func (sh *shard) ready(now time.Time, c *conn, events uint32) {
	defer sh.caught(now, c)
	if events&anyWary != 0 {
		c.extra().wary = true
	}
	if c.open.isShaking() {
		sh.shake(c)
		return
	}
	if events&anyRoom != 0 && c.out != nil {
		sh.resume(now, c)
	}
	switch {
	case c.phase == phaseEnded:
	case events&anyLoss != 0 && c.holds():
		sh.end(c, false) // nobody is there to hear what comes of what is held
	case events&anyInput != 0:
		sh.receive(now, c)
	}
}

// readAgain reads the lines on that had more than was read in the last turn.
func (sh *shard) readAgain(now time.Time) {
	list := sh.unread
	sh.unread = nil
	for _, c := range list {
		c.queued = false
		sh.again(now, c)
	}
}

func (sh *shard) again(now time.Time, c *conn) {
	defer sh.caught(now, c)
	if c.unread && c.phase != phaseEnded {
		sh.receive(now, c)
	}
}

// receive reads a line once. The poller tells of an edge: a line is read until it
// is found empty, which it is after less than was asked for, unless its end or something out of
// band was told of: a read stops short of those, however much came with them.
func (sh *shard) receive(now time.Time, c *conn) {
	if c.holds() {
		c.unread = true // all of it is read once the session takes messages again
		return
	}
	b := sh.door.buffer
	sh.sealed = sh.sealed[:0]
	n := c.read(b)
	// Of a secured line a read gives one record, however many have come.
	c.unread = n > 0 && (n == len(b) || c.wary || c.tls != nil)
	if c.tls != nil {
		sh.utter(now, c)
	}
	switch {
	case n == 0:
		sh.ended(c)
	case n == lineBroken:
		sh.end(c, false)
	case n > 0 && c.phase == phaseHead:
		sh.readHead(now, c, b[:n])
	case n > 0:
		sh.parse(now, c, b[:n])
	}
	sh.touch(c)
	sh.readOn(c)
}

// readOn has a line read in the next turn whose input was left in the kernel.
func (sh *shard) readOn(c *conn) {
	if c.unread && !c.queued && c.phase != phaseEnded && !c.holds() {
		c.queued = true
		sh.unread = append(sh.unread, c)
	}
}

// read takes bytes of the line.
func (c *conn) read(b []byte) int {
	if c.tls != nil {
		return c.tls.read(b)
	}
	return c.shard.kernel.read(c.fd, b)
}

// arrive makes a connection of a new socket.
func (sh *shard) arrive(now time.Time, fd int32, from netip.AddrPort) {
	c := &conn{shard: sh, fd: fd, extras: new(extras)}
	c.open = &opening{conn: c, peer: from, address: from.Addr(), key: clientaddr.Client(from.Addr())}
	sh.load.Add(1)
	sh.enter(c)
	defer sh.caught(now, c)
	sh.server.at(c, stepArrive)
	c.open.place = sh.heads.PushBack(c)
	sh.wheel.set(c, sh.server.moment(now.Add(sh.server.cfg.HeadTimeout)))
	if sh.leave != nil || sh.door.poller.watch(int(fd), c.id, watchLine) != nil {
		sh.end(c, false)
		return
	}
	if sh.door.secure != nil {
		sh.secure(c)
	}
	if sh.heads.Len() > max(1, sh.server.cfg.MaxHeads/len(sh.server.shards)) {
		sh.end(sh.heads.Front().Value.(*conn), true)
	}
}

// adopt makes a line of a connection whose handshake net/http has read, with what came after it.
func (sh *shard) adopt(now time.Time, c *conn, early []byte) {
	if c.phase == phaseEnded {
		return
	}
	if sh.door.poller.watch(int(c.fd), c.id, watchLine) != nil {
		sh.end(c, false)
		return
	}
	sh.parse(now, c, early)
	c.unread = true // what has come since was another poller's edge
}

// readHead goes on with the request of a line.
func (sh *shard) readHead(now time.Time, c *conn, b []byte) {
	o := c.open
	sh.server.at(c, stepHead)
	if o.head != nil {
		*o.head = append(*o.head, b...)
		b = *o.head
	}
	kind, size := sh.door.reader.read(b)
	switch kind {
	case headPart:
		if o.head == nil {
			o.head = sh.server.buffers.get()
			*o.head = append(*o.head, b...)
		}
	case headUpgrade:
		sh.judge(now, c, b, size)
	default:
		sh.handOver(c, b)
	}
}

// headDone lets go of what is kept while a request is read.
func (sh *shard) headDone(o *opening) {
	if o.place != nil {
		sh.heads.Remove(o.place)
		o.place = nil
	}
	if o.head != nil {
		sh.server.buffers.put(o.head)
		o.head = nil
	}
}

// judge judges a handshake whose head is the first size of b. One that is refused goes to
// net/http, which gives the reason at length; one that comes too often has its
// answer here, which costs next to nothing.
func (sh *shard) judge(now time.Time, c *conn, b []byte, size int) {
	s, o, r := sh.server, c.open, sh.door.reader
	hand, f := checkUpgrade(&r.request, s.cfg.Origins)
	if f != nil {
		sh.handOver(c, b)
		return
	}
	if len(s.cfg.Proxies) > 0 {
		o.address = s.cfg.client(o.address, r.request.header)
		o.key = clientaddr.Client(o.address)
	}
	o.hand, o.id = hand, r.id
	if wait, ok := s.gate.pass(o.address, now); !ok {
		sh.refuse(now, c, s.gate.refusal(wait))
		return
	}
	if hand.token == "" {
		sh.admit(now, c, b[size:])
		return
	}
	o.mark = s.cfg.Env.Registry.Mark()
	if s.cfg.Env.Known != nil {
		if identity, fault, ok := s.cfg.Env.Known(hand.token); ok {
			sh.admitBearer(now, c, &verdict{identity, fault}, b[size:])
			return
		}
	}
	early := slices.Clone(b[size:])
	if o.head == nil {
		o.head = s.buffers.get()
	}
	*o.head = append((*o.head)[:0], early...)
	o.checking = true
	sh.check(c, hand.token)
}

// admitBearer goes on with a handshake whose token was checked.
func (sh *shard) admitBearer(now time.Time, c *conn, v *verdict, early []byte) {
	c.open.checking = false
	if v.fault != nil {
		sh.refuse(now, c, notVerified(v.fault))
		return
	}
	c.open.identity = v.identity
	sh.admit(now, c, early)
}

// admit answers a good handshake and starts the session; early is what came after it.
func (sh *shard) admit(now time.Time, c *conn, early []byte) {
	o := c.open
	if err := sh.server.seat(c); err != nil {
		sh.refuse(now, c, noSeat(err))
		return
	}
	c.own().greeting = o.hand.appendSwitching(nil)
	sh.wheel.drop(c)
	head := o.head // in which early may lie
	o.head = nil
	sh.headDone(o)
	sh.begin(now, c)
	sh.parse(now, c, early)
	if head != nil {
		sh.server.buffers.put(head)
	}
}

// refuse answers a handshake and hangs up.
func (sh *shard) refuse(now time.Time, c *conn, f *refusal) {
	id := c.open.id
	sh.wheel.drop(c)
	sh.headDone(c.open)
	c.deaf = true
	sh.part(now, c, f.appendTo(nil, soundID(id), sh.server.cfg.Secure))
}

// handOver gives a line to net/http, with the bytes read of it.
func (sh *shard) handOver(c *conn, b []byte) {
	h := handed{fd: c.fd, peer: c.open.peer, tls: c.tls, early: slices.Clone(b)}
	sh.door.poller.forget(int(c.fd))
	sh.headDone(c.open)
	c.fd = noLine
	sh.end(c, false)
	if !sh.server.requests.offer(h) {
		sh.kernel.close(h.fd, false)
	}
}
