package session

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/frame"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Faults on request: on a development gateway a client may ask for what it should be ready for. Those of
// its own connection are made here, out of what the stream gives it; those of the market by Env.Fault.

const (
	stallTime   = 30 * time.Second
	slowTime    = 30 * time.Second
	slowRate    = 2 << 10 // bytes of the stream, as JSON, a second
	expiryTime  = time.Second
	resetTime   = time.Second // so that the answer arrives: a reset throws away what is on its way
	restartTime = 3 * time.Second
)

// cut is the reason of Session.over when the connection is to be reset.
const cut wire.Reason = "cut"

// trouble is the faults of its own connection that a client asked for and that are not over.
type trouble struct {
	gap      *spoil // of the next trade; nil: not asked for
	checksum *spoil // of the next order book message
	stallEnd moment
	slowEnd  moment
	refill   moment // while it is slowed down: when there is room again
	room     int    // for so many bytes; under 0 where a message was longer
	reset    moment
}

// spoil says which message is to be spoilt: how it begins.
type spoil struct{ begin []byte }

func newSpoil(kind string, id market.InstrumentID) *spoil {
	begin := []byte(`{"type":"` + kind + `",`)
	if id != (market.InstrumentID{}) {
		begin = append(append(begin, wire.MakeIdent(id)...), ',')
	}
	return &spoil{begin}
}

func (s *spoil) concerns(message []byte) bool { return s != nil && bytes.HasPrefix(message, s.begin) }

// sim makes something go wrong.
func (s *Session) sim(now time.Time, m *wire.Message) {
	t := s.at(now)
	if s.env.Fault == nil {
		s.complain(t, wire.NewFault(wire.Forbidden, "Faults are for development gateways"), m.ID)
		return
	}
	req, f := m.Sim()
	if f != nil {
		s.complain(t, f, m.ID)
		return
	}
	msg := req.Fault.Description
	if req.Instrument != (market.InstrumentID{}) {
		msg = strings.Replace(msg, " message ", " message of "+req.Instrument.String()+" ", 1)
	}
	switch {
	case req.Others:
		msg, f = s.upsetOthers(msg, &req)
	case req.Fault.OwnConnection:
	case !s.may(broker.ScopeAdmin):
		f = &wire.Fault{Reason: wire.Forbidden, Msg: "Faults of the market concern everybody", Hint: "Needs the scope " + broker.ScopeAdmin}
	default:
		msg, f = s.env.Fault(req.Fault.Name, req.Instrument)
	}
	if f != nil {
		s.complain(t, f, m.ID)
		return
	}
	s.send(wire.AppendSim(s.sub.Scratch(), m.ID, req.Fault.Name, msg))
	if req.Fault.OwnConnection && !req.Others && s.over() == nil {
		s.upset(now, &req)
	}
}

// upsetOthers makes something go wrong with the other connections of the user.
func (s *Session) upsetOthers(what string, req *wire.Sim) (msg string, f *wire.Fault) {
	n := s.env.Registry.upsetOthers(&s.place, req)
	whom, first := "your other connection", "Your other connection"
	switch {
	case n == 0:
		return "", &wire.Fault{Reason: wire.UnsupportedOption, Msg: "No other connection of yours is open", Hint: "Connect as the same user first"}
	case n > 1:
		rest := "ach of your " + strconv.Itoa(n) + " other connections"
		whom, first = "e"+rest, "E"+rest
	}
	return strings.NewReplacer("this connection", whom, "This connection", first).Replace(what), nil
}

// upsetOthers tells the other sessions of p's user of a fault, and says how many they are.
func (r *Registry) upsetOthers(p *place, req *wire.Sim) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for q := r.users[p.user()]; q != nil; q = q.nextOfUser {
		if q != p {
			q.post(Notice{Kind: Upset, Sim: req})
			n++
		}
	}
	return n
}

// upset makes something go wrong with this connection.
func (s *Session) upset(now time.Time, req *wire.Sim) {
	if req == nil || s.env.Fault == nil {
		return
	}
	t := s.at(now)
	switch req.Fault.Name {
	case wire.SimTokenExpiry:
		s.expires, s.warned = min(s.expires, now.Add(expiryTime).UnixNano()), false
		s.watchToken(now)
		return
	case wire.SimRestart:
		s.drain(now, restartTime)
		return
	}
	a := s.put()
	if a.trouble == nil {
		a.trouble = &trouble{}
	}
	x := a.trouble
	switch req.Fault.Name {
	case wire.SimGap:
		x.gap = newSpoil("T", req.Instrument)
	case wire.SimBadChecksum:
		x.checksum = newSpoil("O", req.Instrument)
	case wire.SimStall:
		x.stallEnd = t.add(stallTime)
	case wire.SimSlowDown:
		x.slowEnd = t.add(slowTime)
		if x.refill == 0 {
			x.room, x.refill = slowRate, t.add(time.Second)
		}
	case wire.SimDisconnect:
		x.reset = t.add(resetTime)
	}
}

// due is when something changes by itself.
func (x *trouble) due() moment {
	if x == nil {
		return 0
	}
	return earliest(earliest(x.stallEnd, x.slowEnd), earliest(x.refill, x.reset))
}

// stalled says that nothing of the stream is to reach the client.
func (x *trouble) stalled() bool { return x != nil && x.stallEnd != 0 }

// suffer does what is due of the trouble.
func (s *Session) suffer(t moment) {
	x := s.aside.trouble
	if x.reset.due(t) {
		s.aside.over = &wire.Fault{Reason: cut}
		s.aside.control = nil
		s.leave()
		return
	}
	if x.stallEnd.due(t) {
		x.stallEnd = 0
	}
	if x.slowEnd.due(t) {
		x.slowEnd, x.refill, x.room = 0, 0, 0
	}
	for x.refill.due(t) {
		x.refill = x.refill.add(time.Second)
		x.room = min(x.room+slowRate, slowRate)
	}
	s.heal()
}

// heal lets go of the trouble once it is over.
func (s *Session) heal() {
	if a := s.aside; *a.trouble == (trouble{}) {
		a.trouble = nil
		s.tidy()
	}
}

// Reset says that the host is to reset the connection, without a close frame. Tick alone brings that about.
func (s *Session) Reset() bool {
	over := s.over()
	return over != nil && over.Reason == cut
}

// gatherTroubled gives what the stream has, less what the trouble takes away. It works on the
// messages as JSON, whatever the client's format.
func (s *Session) gatherTroubled(t moment, dst []byte, max int, conflate bool) []byte {
	x := s.aside.trouble
	if x.slowEnd != 0 {
		if x.room <= 0 {
			if s.out == nil && s.sub.Pending() { // it is as behind as if its socket were full
				s.out = &output{since: t, given: t, progress: t, lookDue: t.add(s.env.slowAfter())}
			}
			return dst
		}
		max = min(max, x.room)
	}
	// What is thrown away does not show in the answer, and a host asks again only when there
	// is something new. So this goes on, but not for a whole replay at once.
	for range 16 {
		raw := s.sub.Gather(nil, max, wire.JSON, conflate)
		if kept := x.spoil(raw); len(kept) > 0 {
			dst = s.sub.Transcode(dst, kept, s.format)
			break
		}
		if len(raw) == 0 {
			break
		}
	}
	s.heal()
	return dst
}

// spoil takes out of frames of JSON, or changes, what the trouble asks for.
func (x *trouble) spoil(frames []byte) []byte {
	if x == nil {
		return frames
	}
	if x.stalled() {
		return nil
	}
	var done []byte
	for rest := frames; len(rest) > 0 && (x.gap != nil || x.checksum != nil); {
		_, message, size := frame.Split(rest)
		rest = rest[size:]
		switch {
		case x.gap.concerns(message):
			x.gap = nil
			done = append(done, frames[:len(frames)-len(rest)-size]...)
			frames = rest
		case x.checksum.concerns(message):
			x.checksum = nil
			done = append(done, frames[:len(frames)-len(rest)-size]...)
			done = wire.AppendText(done, wire.CorruptChecksum(nil, message))
			frames = rest
		}
	}
	if done != nil {
		frames = append(done, frames...)
	}
	if x.slowEnd != 0 {
		x.room -= len(frames)
	}
	return frames
}
