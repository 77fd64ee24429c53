package session

import (
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/stream"
	"github.com/ruedahq/rueda/wire"
)

// gone is the reason of Session.over when the peer left.
const gone wire.Reason = "gone"

// Session is one client's protocol. See the package comment for how a host runs
// it. It lies by value in its host's connection: a million of them are held in
// memory, so what most do not have most of the time hangs behind two pointers.
type Session struct {
	env    *Env
	grants *Grants // shared, not changed; nil before authentication
	aside  *aside  // what is seldom there; nil: nothing of it
	out    *output // what does not come to rest; nil: all is at rest
	place  place   // in the registry
	sub    stream.Subscriber

	rate     moment // when the client's allowance is whole again
	expires  int64  // the token's end by the wall clock, Unix ns
	tokenDue moment // when the first token must have come, or else when to look at the token's end
	pingDue  moment
	pongDue  moment // pong for the oldest ping that the kernel took and none answered
	taken    uint64 // bytes of output that the kernel took

	maxItems  uint32 // identifiers in the set
	perSecond uint32 // messages
	format    wire.Format
	known     bool // authenticated
	strict    bool // slow-client policy
	warned    bool // of the token's end
}

// aside is what a session has now and then: answers and pings on their way out, a
// token that is being checked, faults of the client, and options few use.
type aside struct {
	control   []byte // frames that wait, before any of the stream
	check     *check
	found     *stream.Search // of the subscribe that is read again just now
	faults    *faults        // what the client did wrong lately
	slow      *slowness
	drainDue  moment
	aliveDue  moment
	rightsDue moment            // when to look at the user's rights
	rightsAt  time.Time         // when the next of them begins or ends, by the wall clock
	pingEnd   uint64            // where the ping ends that the kernel has not taken yet; 0: there is none
	framed    bool              // a frame of the host's own is in control
	marked    bool              // an Alive mark is owed
	quiet     stream.QuietPlace // how far the last one came
	places    bool              // the host wants positions
	trouble   *trouble          // that the client asked for; nil: none
	over      *wire.Fault       // why the session ended; nil: it lives
}

// over says why the session ended; nil: it lives.
func (s *Session) over() *wire.Fault {
	if s.aside == nil {
		return nil
	}
	return s.aside.over
}

// put makes room for what is seldom there.
func (s *Session) put() *aside {
	if s.aside == nil {
		s.aside = &aside{}
	}
	return s.aside
}

// tidy lets go of the room when nothing is in it any more.
func (s *Session) tidy() {
	if a := s.aside; a != nil && a.empty() {
		s.aside = nil
	}
}

func (a *aside) empty() bool {
	return len(a.control) == 0 && a.check == nil && a.faults == nil && !a.marked &&
		(a.slow == nil || !a.slow.on && a.slow.warnDue == 0) && a.drainDue == 0 && a.aliveDue == 0 && a.rightsDue == 0 && a.pingEnd == 0 && a.over == nil && !a.places && a.trouble == nil
}

// checking is the token that is being checked, if any.
func (s *Session) checking() *check {
	if s.aside == nil {
		return nil
	}
	return s.aside.check
}

// Host is a session's way back to whoever runs it.
type Host interface {
	// Post hands a notice to the session's goroutine, which calls Notify with it.
	// It is called under the registry's mutex by any goroutine, so it must not
	// block and must not call the registry. It may be called after PeerGone.
	Post(Notice)
}

// Peer is what the host knows of a connection when it is made.
type Peer struct {
	// Identity of the handshake's Authorization header, already verified; nil:
	// none was sent. Mark is Registry.Mark of before it was verified.
	Identity *Identity
	Mark     Mark
}

// Start begins the session of a connection. It subscribes by shard, whose turns name
// the connection by its host.
func (s *Session) Start(env *Env, peer Peer, shard *stream.Shard, host Host, now time.Time) {
	*s = Session{env: env}
	s.place.session = s
	shard.Open(&s.sub, host)
	s.limit(env.limits(broker.Limits{}))
	if peer.Identity != nil {
		s.welcome(now, peer.Identity, &check{mark: peer.Mark})
	} else {
		s.tokenDue = s.at(now).add(env.authTimeout())
	}
}

// SetFormat has everything sent in a format other than JSON, one message a frame. It is
// called right after Start.
func (s *Session) SetFormat(f wire.Format) {
	s.format = f
	if s.waiting() > 0 { // the welcome of a token of the handshake
		s.aside.control = s.sub.Transcode(nil, s.aside.control, f)
	}
}

// A moment is a point in time by the monotonic clock, in nanoseconds from just before
// Env.Origin; 0 is none. It is a third of the size of a time.Time.
type moment int64

func (s *Session) at(now time.Time) moment { return moment(now.Sub(s.env.Origin)) + 1 }

func (s *Session) time(m moment) time.Time { return s.env.Origin.Add(time.Duration(m - 1)) }

func (m moment) add(d time.Duration) moment { return m + moment(d) }

// due says whether m is set and has come at t.
func (m moment) due(t moment) bool { return m != 0 && m <= t }

// usualPong is how nearly every client writes it; most of what an idle server reads.
const usualPong = `{"action":"pong"}`

// Text takes a complete text message. It keeps nothing of msg.
func (s *Session) Text(now time.Time, msg []byte) {
	if s.over() != nil {
		return
	}
	if string(msg) == usualPong {
		s.pongDue = 0
		return
	}
	m, fault := wire.ReadMessage(msg)
	s.receive(now, &m, fault, msg, s.Text)
}

// Binary takes a complete binary message: MessagePack, where the client asked for
// that. It keeps nothing of msg.
func (s *Session) Binary(now time.Time, msg []byte) {
	switch {
	case s.over() != nil:
	case s.format&^wire.Deflate == wire.Msgpack:
		m, fault := wire.ReadMsgpack(msg)
		s.receive(now, &m, fault, msg, s.Binary)
	case !s.charge(s.at(now)):
		s.refuse(s.at(now), nil)
	default:
		s.complain(s.at(now), wire.NewFault(wire.BadMessage, "Messages are text here, not binary"), nil)
	}
}

// receive answers a message, or keeps it for again while a token is being checked or a start looked for.
func (s *Session) receive(now time.Time, m *wire.Message, fault *wire.Fault, msg []byte, again func(time.Time, []byte)) {
	if fault == nil && m.Action == "pong" {
		s.pongDue = 0 // it answers every ping before it, and is never charged
		return
	}
	if s.checking() != nil {
		s.hold(now, msg, again)
		return
	}
	s.message(now, m, fault)
	if c := s.checking(); c != nil && c.start != nil && c.start.again.take == nil {
		c.start.again = held{append([]byte(nil), msg...), again}
	}
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
		s.complain(t, &wire.Fault{Reason: wire.UnknownAction, Hint: s.actions()}, m.ID)
	case !s.known && m.Action != "auth_token":
		s.stranger(m.ID)
	default:
		// A right that has begun or ended changes the set before the message does.
		if a := s.aside; s.known && a != nil && a.rightsDue != 0 && !now.Before(a.rightsAt) {
			s.reconsider(now)
		}
		act(now, m)
	}
}

// actions is what there is, for a client that asked for something else.
func (s *Session) actions() string {
	all := "Actions: auth_token, subscribe, unsubscribe, subscriptions, resync, ping, pong"
	if s.env.Fault != nil {
		all += ", sim"
	}
	return all
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
	case "sim":
		return s.sim
	}
	return nil
}

// TooBig is told when a message over the size limit was announced.
func (s *Session) TooBig(time.Time) {
	s.fail(wire.NewFault(wire.MessageTooBig, ""), nil, nil)
}

// Tick does what is due. The host calls it when Deadline has passed.
func (s *Session) Tick(now time.Time) {
	t := s.at(now)
	if s.over() == nil && !s.known && s.tokenDue.due(t) {
		s.fail(wire.NewFault(wire.AuthTimeout, ""), nil, nil)
	}
	if s.over() == nil {
		s.watchToken(now)
	}
	if s.over() == nil && s.aside != nil && s.aside.rightsDue != 0 {
		if now.Before(s.aside.rightsAt) {
			s.watchRights(now)
		} else {
			s.reconsider(now)
		}
	}
	if s.over() == nil && s.aside != nil && s.aside.drainDue.due(t) {
		s.fail(wire.NewFault(wire.ShuttingDown, ""), nil, nil)
	}
	if s.over() == nil {
		s.beat(t)
	}
	if s.over() == nil && s.out != nil {
		s.watchOutput(now)
	}
	if s.over() == nil && s.aside != nil && s.aside.aliveDue.due(t) {
		s.mark(t)
	}
	if s.over() == nil && s.aside != nil && s.aside.trouble != nil {
		s.suffer(t)
	}
}

// Deadline is when Tick must be called next; zero: there is nothing to wait for.
func (s *Session) Deadline() time.Time {
	if s.over() != nil {
		return time.Time{}
	}
	next := earliest(earliest(s.tokenDue, s.pingDue), s.pongDue)
	if s.aside != nil {
		next = earliest(earliest(next, s.aside.drainDue), earliest(s.aside.aliveDue, s.aside.trouble.due()))
		next = earliest(next, s.aside.rightsDue)
	}
	if s.out != nil {
		next = earliest(earliest(next, s.out.lookDue), s.stallDue())
	}
	if next == 0 {
		return time.Time{}
	}
	return s.time(next)
}

// earliest is the earlier of two moments that are set.
func earliest(a, b moment) moment {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// PeerGone gives back what the session holds. The host calls it once the
// connection has ended, however that came; calling it again is nothing.
func (s *Session) PeerGone() {
	s.leave()
	over := s.over()
	if over == nil {
		over = &wire.Fault{Reason: gone}
	}
	s.aside = &aside{over: over}
}

// leave gives back the places outside of the session.
func (s *Session) leave() {
	s.env.Registry.release(&s.place)
	var buf [8]Use
	before := s.uses(buf[:0])
	s.sub.Close()
	if c := s.checking(); c != nil {
		if c.start != nil {
			c.start.search.Stop()
		}
		s.aside.check = nil
	}
	if s.out != nil {
		s.tally(0, 0)
	}
	s.countUses(before) // last, since it calls what is not ours
}
