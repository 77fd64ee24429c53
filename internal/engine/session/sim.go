package session

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/base/frame"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Simulated faults: on a development gateway a client may request faults to test itself. Those of
// its own connection are made here, from the output of the stream; those of the market by
// Env.Fault.

const (
	stallTime   = 30 * time.Second
	slowTime    = 30 * time.Second
	slowRate    = 2 << 10 // bytes of the stream a second, as JSON
	expiryTime  = time.Second
	resetTime   = time.Second // so that the answer arrives before the reset
	restartTime = 3 * time.Second
)

// simFaults are the faults of its own connection that a client has requested and that are not over.
type simFaults struct {
	gap      *corruption // of the next trade; nil: not requested
	checksum *corruption // of the next order book message
	stallEnd instant
	slowEnd  instant
	refill   instant // of budget, while slowEnd is set
	budget   int     // bytes; negative after a long message
	reset    instant
}

// corruption selects the message to corrupt by its beginning.
type corruption struct{ begin []byte }

func newCorruption(kind string, id market.InstrumentID) *corruption {
	begin := []byte(`{"type":"` + kind + `",`)
	if id != (market.InstrumentID{}) {
		begin = append(append(begin, wire.MakeIdent(id)...), ',')
	}
	return &corruption{begin}
}

func (c *corruption) matches(message []byte) bool {
	return c != nil && bytes.HasPrefix(message, c.begin)
}

// requestFault handles the action of a client that asks for a fault of the simulated market. It
// injects the fault, or rejects the message if the gateway or the user may not do so.
func (r *request) requestFault(m *wire.Message) {
	if r.env.Fault == nil {
		r.reject(wire.NewFault(wire.Forbidden, "Faults are for development gateways"), nil)
		return
	}
	req, f := m.Sim()
	if f != nil {
		r.reject(f, nil)
		return
	}
	msg, speed := req.Fault.Description, market.Size(0)
	if req.Instrument != (market.InstrumentID{}) {
		msg = strings.Replace(msg, " message ", " message of "+req.Instrument.String()+" ", 1)
	}
	switch {
	case req.Others:
		msg, f = r.requestOfOthers(msg, &req)
	case req.Fault.OwnConnection:
	case !r.grants.has(broker.ScopeAdmin):
		f = &wire.Fault{Reason: wire.Forbidden, Msg: "Faults of the market concern everybody", Hint: "Needs the scope " + broker.ScopeAdmin}
	case req.Fault.Name == wire.SimSpeed:
		msg, speed, f = r.requestSpeed(req.Speed)
	default:
		msg, f = r.env.Fault(req.Fault.Name, req.Instrument)
	}
	if f != nil {
		r.reject(f, nil)
		return
	}
	if r.env.Injected != nil && (req.Fault.Name != wire.SimSpeed || req.Speed != 0) {
		r.env.Injected(r.entry.user(), req.Fault.Name, msg)
	}
	r.send(wire.AppendSim(r.sub.Scratch(), r.id, req.Fault.Name, msg, speed))
	if req.Fault.OwnConnection && !req.Others && r.closeReason() == nil {
		r.injectFault(r.now, &req)
	}
}

// requestSpeed changes the speed of the market, or only reports it if speed is 0.
func (r *request) requestSpeed(speed market.Size) (msg string, now market.Size, f *wire.Fault) {
	if r.env.Speed == nil {
		return "", 0, &wire.Fault{Reason: wire.UnsupportedOption, Msg: "The speed of this market cannot change", Hint: "Only the simulated exchange changes its speed"}
	}
	now, err := r.env.Speed(speed)
	if err != nil {
		return "", 0, &wire.Fault{Reason: wire.UnsupportedOption, Msg: err.Error(), Hint: "Retry later"}
	}
	return "The market runs at " + now.String() + " times its usual speed", now, nil
}

// requestOfOthers requests a fault of the other connections of the user.
func (r *request) requestOfOthers(what string, req *wire.Sim) (msg string, f *wire.Fault) {
	n := r.env.Registry.requestOfOthers(&r.entry, req)
	others, first := "your other connection", "Your other connection"
	switch {
	case n == 0:
		return "", &wire.Fault{Reason: wire.UnsupportedOption, Msg: "No other connection of yours is open", Hint: "Connect as the same user first"}
	case n > 1:
		rest := "ach of your " + strconv.Itoa(n) + " other connections"
		others, first = "e"+rest, "E"+rest
	}
	return strings.NewReplacer("this connection", others, "This connection", first).Replace(what), nil
}

// requestOfOthers posts a fault to the other sessions of p's user, and returns their number.
func (r *Registry) requestOfOthers(p *entry, req *wire.Sim) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for q := r.users[p.user()]; q != nil; q = q.nextOfUser {
		if q != p {
			q.post(Event{Kind: FaultRequested, Sim: req})
			n++
		}
	}
	return n
}

// injectFault starts a fault of this connection.
func (s *Session) injectFault(now time.Time, req *wire.Sim) {
	if req == nil || s.env.Fault == nil {
		return
	}
	t := s.env.at(now)
	switch req.Fault.Name {
	case wire.SimTokenExpiry:
		s.expires, s.warned = min(s.expires, now.Add(expiryTime).UnixNano()), false
		s.watchToken(now)
		return
	case wire.SimRestart:
		s.drain(now, restartTime)
		return
	}
	o := s.ext()
	if o.sim == nil {
		o.sim = &simFaults{}
	}
	x := o.sim
	switch req.Fault.Name {
	case wire.SimGap:
		x.gap = newCorruption("T", req.Instrument)
	case wire.SimBadChecksum:
		x.checksum = newCorruption("O", req.Instrument)
	case wire.SimStall:
		x.stallEnd = t.add(stallTime)
	case wire.SimSlowDown:
		x.slowEnd = t.add(slowTime)
		if x.refill == 0 {
			x.budget, x.refill = slowRate, t.add(time.Second)
		}
	case wire.SimDisconnect:
		x.reset = t.add(resetTime)
	}
}

// due returns when the faults change next; 0: never.
func (x *simFaults) due() instant {
	if x == nil {
		return 0
	}
	return earliest(x.stallEnd, x.slowEnd, x.refill, x.reset)
}

// stalled reports whether the client must get no data.
func (x *simFaults) stalled() bool { return x != nil && x.stallEnd != 0 }

// runSim changes the simulated faults whose time has come.
func (s *Session) runSim(now time.Time) {
	if s.optional == nil || s.sim == nil {
		return
	}
	x, t := s.sim, s.env.at(now)
	if x.reset.due(t) {
		s.closed = &wire.Fault{Reason: reset}
		s.control = nil
		s.release()
		return
	}
	if x.stallEnd.due(t) {
		x.stallEnd = 0
	}
	if x.slowEnd.due(t) {
		x.slowEnd, x.refill, x.budget = 0, 0, 0
	}
	for x.refill.due(t) {
		x.refill = x.refill.add(time.Second)
		x.budget = min(x.budget+slowRate, slowRate)
	}
	if *x == (simFaults{}) {
		s.sim = nil
		s.releaseExt()
	}
}

// simOutput returns the output of the stream with simulated faults. It changes messages in JSON,
// whatever the format of the client.
func (s *Session) simOutput(now time.Time, dst []byte, max int, conflate bool) []byte {
	x := s.sim
	if x.slowEnd != 0 {
		if x.budget <= 0 {
			if s.out == nil && s.sub.Pending() { // it is behind, as if its socket were full
				s.out = s.env.newOutput(s.env.at(now))
			}
			return dst
		}
		max = min(max, x.budget)
	}
	// A host does not ask again after an empty result, so that this continues after dropped messages,
	// but not for a whole replay at once.
	for range 16 {
		raw := s.gather(now, nil, max, wire.JSON, conflate)
		if kept := x.corrupt(raw); len(kept) > 0 {
			dst = s.sub.Transcode(dst, kept, s.format)
			break
		}
		if len(raw) == 0 {
			break
		}
	}
	if *x == (simFaults{}) {
		s.sim = nil
	}
	return dst
}

// corrupt drops or changes messages in frames of JSON as the faults request.
func (x *simFaults) corrupt(frames []byte) []byte {
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
		case x.gap.matches(message):
			x.gap = nil
			done = append(done, frames[:len(frames)-len(rest)-size]...)
			frames = rest
		case x.checksum.matches(message):
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
		x.budget -= len(frames)
	}
	return frames
}
