package session

import (
	"bytes"
	"net/netip"
	"time"
	"unique"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/wire"
)

// Reasons of Session.closed that the client does not see.
const (
	peerGone wire.Reason = "gone"
	reset    wire.Reason = "reset" // on request, see sim.go
)

// Session is the protocol of one client. The package comment shows how a host runs it. The
// connection of the host contains it by value. There may be a million of them, so state that few
// need at a time is behind two pointers.
type Session struct {
	env       *Env
	grants    *Grants // shared, not changed; nil before authentication
	*optional         // changed through ext only
	out       *output // output that the kernel has not accepted; nil: none
	entry     entry   // in the registry
	sub       subscription.Subscriber

	allowance allowance
	expires   int64   // end of the token by the wall clock, Unix ns
	tokenDue  instant // deadline of the first token, or else when to check the end of the token
	pingDue   instant
	pongDue   instant // deadline of the pong to the oldest ping without one that the kernel accepted
	accepted  uint64  // bytes of output that the kernel has accepted

	address unique.Handle[netip.Addr] // of the client: a third of the size of a netip.Addr

	format        wire.Format
	authenticated bool
	strict        bool // policy for slow consumers
	warned        bool // of the end of the token
	began         age
	registered    bool // entry is in the registry, whose mutex guards this
}

// Host is the owner of a session, such as a shard of sockets, as the session calls it.
type Host interface {
	// Post passes an event to the session's goroutine, which calls Handle with it. Any goroutine
	// may call it, under the registry's mutex, so that it must not block or call the registry. It
	// may be called after PeerGone.
	Post(Event)
}

// Peer describes a new connection.
type Peer struct {
	// Identity of the Authorization header of the handshake; nil: none was sent. Mark is
	// Registry.Mark from before it was verified.
	Identity *Identity
	Mark     Mark

	Address netip.Addr // of the client; zero: unknown

	Format wire.Format // of the output, one message a frame

	// Positions adds to each piece of data a message with the position after it, for a host that
	// writes messages in another form. The format must be JSON.
	Positions bool
}

// Start starts the session of a connection. It subscribes through shard, whose turns return host as
// the key of the connection.
func (s *Session) Start(env *Env, peer Peer, shard *subscription.Shard, host Host, now time.Time) {
	*s = Session{env: env, format: peer.Format, address: unique.Make(peer.Address)}
	s.began.set(now.Sub(env.Origin))
	s.entry.session = s
	shard.Open(&s.sub, host)
	if peer.Positions {
		s.ext().positions = true
	}
	if peer.Identity != nil {
		s.welcome(now, peer.Identity, &check{mark: peer.Mark})
	} else {
		s.tokenDue = env.at(now).add(env.authTimeout())
	}
}

// Address returns the address of the client.
func (s *Session) Address() netip.Addr { return s.address.Value() }

// Limits returns the present limits of the session.
func (s *Session) Limits() broker.Limits { return limitsOf(s) }

// Info describes a session for the log.
type Info struct {
	Address  netip.Addr
	Duration time.Duration // since its start, in whole seconds
	User     string        // id; "": the session has not authenticated
	Slow     bool          // the client reads too slowly
	Accepted uint64        // bytes of output that the kernel has accepted
}

// InfoOf returns the description of a session now.
func InfoOf(s *Session, now time.Time) Info {
	i := Info{Slow: s.optional.isSlow(), Accepted: s.accepted}
	if s.env != nil {
		i.Address, i.Duration = s.Address(), s.began.until(now.Sub(s.env.Origin))
	}
	if s.entry.identity != nil {
		i.User = s.entry.user()
	}
	return i
}

// Handle handles an event. It does not retain the message of an event.
func (s *Session) Handle(now time.Time, e Event) {
	if s.closeReason() != nil {
		return
	}
	switch e.Kind {
	case Text, Binary:
		s.handleMessage(now, e, nil)
	case TooBig:
		s.fail(wire.NewFault(wire.MessageTooBig, ""), nil, nil)
	case Timer:
		s.runTimers(now)
	case Verified:
		s.verified(now, e.Identity, e.Fault)
	case NextPiece:
		s.nextPiece(now, e.pieces)
	case Found:
		s.resumeFound(now)
	case Extended, Revoked, Replaced, Exceeds, Overload, ByOperator, Broken:
		s.notify(now, &e) // e changes nothing that a message in pieces reads, or closes the session
	default:
		s.afterPieces(now, func() { s.notify(now, &e) })
	}
}

// usualPong is the pong that nearly every client sends. It is most of the input of an idle server.
const usualPong = `{"action":"pong"}`

// handleMessage answers a complete message: JSON in a text message, or MessagePack in a binary one
// if the client asked for that. While the session is busy it keeps the message for later. found is
// the search that the message has waited for; nil: none.
func (s *Session) handleMessage(now time.Time, e Event, found *subscription.Search) {
	if e.Kind == Text && string(e.Message) == usualPong {
		s.pongDue = 0
		return
	}
	r := &request{Session: s, found: found}
	r.at(now)
	switch {
	case s.env.isWhole(len(e.Message), 0):
		r.handle(e)
	case s.Busy():
		s.hold(e)
	default:
		e.Message = bytes.Clone(e.Message)
		r.inPieces(func() { r.handle(e) })
	}
}

// runTimers acts on the deadlines that have passed, until the session is over.
func (s *Session) runTimers(now time.Time) {
	for _, step := range [...]func(*Session, time.Time){
		(*Session).watchToken, (*Session).checkRights, (*Session).checkDrain, (*Session).runHeartbeat,
		(*Session).watchOutput, (*Session).runAlive, (*Session).runSim,
	} {
		if step(s, now); s.closeReason() != nil {
			return
		}
	}
}

// Deadline returns when the session needs a Timer event; zero: none.
func (s *Session) Deadline() time.Time {
	if s.closeReason() != nil {
		return time.Time{}
	}
	next := earliest(s.tokenDue, s.pingDue, s.pongDue)
	if o := s.optional; o != nil {
		next = earliest(next, o.drainDue, o.aliveDue, o.sim.due(), o.rightsDue)
	}
	if s.out != nil {
		next = earliest(next, s.out.checkDue, s.out.stallDue(s.env))
	}
	if next == 0 {
		return time.Time{}
	}
	return s.env.time(next)
}

// PeerGone releases what the session holds. The host calls it when the connection has ended for any
// reason. Calling it again has no effect.
func (s *Session) PeerGone() {
	s.release()
	closed := s.closeReason()
	if closed == nil {
		closed = &wire.Fault{Reason: peerGone}
	}
	s.optional = &optional{closed: closed}
}

// release releases what the session holds elsewhere.
func (s *Session) release() {
	s.env.Registry.release(&s.entry)
	var buf [8]Use
	before := s.recorded(buf[:0])
	s.inProgress().end()
	s.sub.Close()
	if c := s.pendingCheck(); c != nil {
		if c.start != nil {
			c.start.search.Stop()
		}
		if c.over != nil {
			c.over.Stop()
		}
		s.check = nil
	}
	if s.optional != nil && s.moving != nil {
		s.moving.Stop()
	}
	if s.out != nil {
		s.holdBacklog(0, 0)
	}
	s.countUses(before) // last, because it calls other packages
}
