package session

import (
	"net/netip"
	"time"

	"github.com/ruedahq/rueda/internal/stream"
	"github.com/ruedahq/rueda/wire"
)

// Session is one client's protocol. See the package comment for how a host runs it.
type Session struct {
	env  *Env
	sub  *stream.Subscriber
	zero time.Time // moments count from here

	place  place // in the registry
	rights Rights
	scopes scope
	known  bool // authenticated
	strict bool // slow-client policy
	warned bool // of the token's end
	marked bool // an Alive mark is owed

	maxItems  uint32 // identifiers in the set
	perSecond uint32 // messages

	over wire.Reason // why the session ended; gone: the peer left
	rate moment      // when the client's allowance is whole again

	authDue   moment // end of the time for the first auth_token
	expires   int64  // the token's end by the wall clock, Unix ns
	expiryDue moment // when to look at it
	drainDue  moment
	aliveDue  moment
	pingDue   moment
	pongDue   moment // pong for the oldest ping that the kernel took and none answered
	pingEnd   uint64 // where the ping ends that the kernel has not taken yet; 0: there is none

	control  []byte // frames that wait, before any of the stream
	gathered uint64 // bytes given to the host
	taken    uint64 // bytes of them that the kernel took
	outSince moment // output has not come to rest since
	outGiven moment // of the buffer that is out
	progress moment // when the kernel last took something, or had nothing to take
	slowDue  moment // when to look at what waits
	slow     *slowness

	check  *check  // a token that is being checked
	faults *faults // what the client did wrong lately
}

// gone is Session.over when the peer left.
const gone wire.Reason = "gone"

// Peer is what the host knows of a connection when it is made.
type Peer struct {
	Address netip.Addr
	Client  string // User-Agent of the handshake

	// Post hands a notice to the session's goroutine, which calls Notify with it.
	// It is called under the registry's mutex by any goroutine, so it must not
	// block and must not call the registry. It may be called after PeerGone.
	Post func(Notice)

	// Identity of the handshake's Authorization header, already verified; nil:
	// none was sent. Mark is Registry.Mark of before it was verified.
	Identity *Identity
	Mark     Mark
}

// New starts the session of a connection. sub is the session's from now on.
func New(env *Env, peer Peer, sub *stream.Subscriber, now time.Time) *Session {
	s := &Session{
		env: env, sub: sub,
		zero: now.Add(-1), // so that no moment is 0
	}
	s.limit(env.limits())
	s.place.post = peer.Post
	t := s.at(now)
	if peer.Identity != nil {
		s.welcome(now, peer.Identity, &check{mark: peer.Mark})
	} else {
		s.authDue = t.add(env.authTimeout())
	}
	return s
}

// A moment is a point in the session's life by the monotonic clock, in
// nanoseconds; 0 is none. It is a third of the size of a time.Time.
type moment int64

func (s *Session) at(now time.Time) moment { return moment(now.Sub(s.zero)) }

func (m moment) add(d time.Duration) moment { return m + moment(d) }

// due says whether m is set and has come at t.
func (m moment) due(t moment) bool { return m != 0 && m <= t }

// Text takes a complete text message. It keeps nothing of msg.
func (s *Session) Text(now time.Time, msg []byte) {
	if s.over != "" {
		return
	}
	m, fault := wire.ReadMessage(msg)
	if fault == nil && m.Action == "pong" {
		s.pongDue = 0 // it answers every ping before it, and is never charged
		return
	}
	if s.check != nil {
		s.wait(now, msg)
		return
	}
	s.message(now, &m, fault)
}

// message answers one message. Faults are looked for in the order of the
// contract: size and UTF-8 (by the host), rate, JSON, action, authentication,
// fields, options, limit, items.
func (s *Session) message(now time.Time, m *wire.Message, fault *wire.Fault) {
	t := s.at(now)
	// A subscribe may be free of charge, and sees to that itself.
	if (fault != nil || m.Action != "subscribe" || !s.known) && !s.charge(t) {
		s.refuse(t, m.ID)
		return
	}
	if fault != nil {
		s.complain(t, fault, m.ID)
		return
	}
	act := s.action(m.Action)
	switch {
	case act == nil:
		s.complain(t, &wire.Fault{
			Reason: wire.UnknownAction,
			Hint:   "Actions: auth_token, subscribe, unsubscribe, subscriptions, resync, ping, pong",
		}, m.ID)
	case !s.known && m.Action != "auth_token":
		s.stranger(m.ID)
	default:
		act(now, m)
	}
}

// action is what an action does; nil: there is none of that name.
func (s *Session) action(name string) func(time.Time, *wire.Message) {
	switch name {
	case "auth_token":
		return s.authToken
	case "subscribe":
		return s.subscribe
	case "unsubscribe":
		return s.unsubscribe
	case "subscriptions":
		return s.subscriptions
	case "resync":
		return s.resync
	case "ping":
		return s.pingOfClient
	}
	return nil
}

// Binary takes a complete binary message: this protocol has none.
func (s *Session) Binary(now time.Time) {
	if s.over != "" {
		return
	}
	t := s.at(now)
	if !s.charge(t) {
		s.refuse(t, nil)
		return
	}
	s.complain(t, wire.NewFault(wire.BadMessage, "Messages are text here, not binary"), nil)
}

// TooBig is told when a message over the size limit was announced.
func (s *Session) TooBig(time.Time) {
	s.fail(wire.NewFault(wire.MessageTooBig, ""), nil, nil)
}

// Tick does what is due. The host calls it when Deadline has passed.
func (s *Session) Tick(now time.Time) {
	t := s.at(now)
	if s.over == "" && s.authDue.due(t) {
		s.fail(wire.NewFault(wire.AuthTimeout, ""), nil, nil)
	}
	if s.over == "" {
		s.watchToken(now)
	}
	if s.over == "" && s.drainDue.due(t) {
		s.fail(wire.NewFault(wire.ShuttingDown, ""), nil, nil)
	}
	if s.over == "" {
		s.beat(t)
	}
	if s.over == "" {
		s.watchOutput(now)
	}
	if s.over == "" && s.aliveDue.due(t) {
		s.mark(t)
	}
}

// Deadline is when Tick must be called next; zero: there is nothing to wait for.
func (s *Session) Deadline() time.Time {
	if s.over != "" {
		return time.Time{}
	}
	next := moment(0)
	for _, m := range [...]moment{
		s.authDue, s.expiryDue, s.drainDue, s.pingDue, s.pongDue, s.aliveDue, s.slowDue, s.stallDue(),
	} {
		if m != 0 && (next == 0 || m < next) {
			next = m
		}
	}
	if next == 0 {
		return time.Time{}
	}
	return s.zero.Add(time.Duration(next))
}

// PeerGone gives back what the session holds. The host calls it once the
// connection has ended, however that came; calling it again is nothing.
func (s *Session) PeerGone() {
	s.leave()
	if s.over == "" {
		s.over = gone
	}
	s.control = nil
}

// leave gives back the places outside of the session.
func (s *Session) leave() {
	s.env.Registry.release(&s.place)
	s.sub.Close()
	s.check = nil
}
