package ndjson

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/ruedahq/rueda/wire"
)

// Limits of the first line.
const (
	maxHello = 8 << 10 // bytes, with its line feed
	maxName  = 36
)

// hello reads the first line of a connection, after the TLS handshake if there is one. The fault
// says why the connection is refused. A valid Hello gets no answer.
func (p *producer) hello(ctx context.Context) *wire.Fault {
	timeout := p.source.config.HelloTimeout
	_ = p.conn.SetDeadline(time.Now().Add(timeout)) // an error shows at the next read
	if secure, ok := p.conn.(*tls.Conn); ok {
		if err := secure.HandshakeContext(ctx); err != nil {
			return p.explain(err, wire.NewFault(wire.NotAuthenticated, "the TLS handshake failed"))
		}
		if chain := secure.ConnectionState().PeerCertificates; len(chain) > 0 {
			p.subject = string(chain[0].RawSubject)
		}
	}
	ended := wire.NewFault(wire.BadMessage, "the connection ended before its Hello")
	first, err := p.in.Peek(1)
	if err != nil {
		return p.explain(err, ended)
	}
	if first[0] != '{' {
		return wire.NewFault(wire.BadMessage, "this is a feed of JSON lines: the first byte must be {")
	}
	line, err := p.in.ReadSlice('\n')
	if err != nil {
		return p.explain(err, ended)
	}
	p.line++
	v, err := wire.ParseJSON(trim(line))
	if err != nil {
		return wire.NewFault(wire.BadJSON, "line 1: "+err.Error())
	}
	if f := p.authenticate(&v); f != nil {
		if f.Reason == wire.InvalidToken && p.source.refuse != nil {
			p.source.refuse(ctx, p.from)
		}
		return f
	}
	_ = p.conn.SetDeadline(time.Time{}) // an error shows at the next read
	p.in = bufio.NewReaderSize(p.in, lineBuffer)
	return nil
}

// explain returns the fault of an error before the Hello was complete.
func (p *producer) explain(err error, other *wire.Fault) *wire.Fault {
	switch {
	case p.evicted.Load():
		return wire.NewFault(wire.Overloaded, "too many connections without a Hello")
	case errors.Is(err, bufio.ErrBufferFull):
		return wire.NewFault(wire.MessageTooBig, fmt.Sprintf("line 1: a Hello has at most %d bytes", maxHello))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return wire.NewFault(wire.AuthTimeout, fmt.Sprintf("no Hello within %v", p.source.config.HelloTimeout))
	}
	return other
}

// authenticate checks a Hello and sets the name of the producer. Unknown members are ignored.
func (p *producer) authenticate(v *wire.Value) *wire.Fault {
	kind, token, name, resume := v.Get("type"), v.Get("token"), v.Get("name"), v.Get("resume")
	switch {
	case kind.Kind != wire.String || kind.Text != "Hello":
		return wire.NewFault(wire.NotAuthenticated, `line 1: send {"type":"Hello","token":"..."} first`)
	case token.Kind != wire.Absent && token.Kind != wire.String:
		return wire.NewFault(wire.BadField, "line 1: token must be a string")
	case name.Kind != wire.Absent && (name.Kind != wire.String || !validName(name.Text)):
		return wire.NewFault(wire.BadField, fmt.Sprintf("line 1: name must have 1 to %d of the characters A-Z a-z 0-9 . _ -", maxName))
	case resume.Kind != wire.Absent && (resume.Kind != wire.String || !validName(resume.Text)):
		return wire.NewFault(wire.BadField, fmt.Sprintf("line 1: resume must have 1 to %d of the characters A-Z a-z 0-9 . _ -", maxName))
	case p.source.config.Token == "":
	case token.Text == "":
		return wire.NewFault(wire.NotAuthenticated, "line 1: the Hello has no token")
	default:
		now := p.source.config.Token
		if p.source.config.TokenNow != nil {
			now = p.source.config.TokenNow()
		}
		got, want := sha256.Sum256([]byte(token.Text)), sha256.Sum256([]byte(now))
		if len(now) < MinToken || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			return wire.NewFault(wire.InvalidToken, "line 1: the token is wrong")
		}
	}
	p.numbering = resume.Text
	if p.name = name.Text; p.name != "" {
		p.log = p.source.config.Logger.With("producer", p.name, "address", p.from)
	}
	return nil
}

func validName(s string) bool {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
	return s != "" && len(s) <= maxName && strings.Trim(s, letters) == ""
}

// refuse answers a connection without a valid Hello and closes it.
func (p *producer) refuse(f *wire.Fault) {
	if n := p.count(&p.source.refused, func(s *Stats) *int { return &s.Refused }); n > 0 {
		p.log.Warn("connections refused", "reason", f.Reason, "count", n)
	}
	p.closeWithError(f)
}

// replace makes run answer replaced and return, because a producer of the same name has connected.
// Any goroutine may call it.
func (p *producer) replace() {
	p.replaced.Store(true)
	_ = p.conn.SetReadDeadline(time.Unix(1, 0)) // an error means that the connection has ended
}
