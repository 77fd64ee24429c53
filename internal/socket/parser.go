package socket

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"unicode/utf8"

	"github.com/ruedahq/rueda/internal/deflate"
)

// Opcodes of RFC 6455, section 11.8.
const (
	opContinuation = 0x0
	opText         = 0x1
	opBinary       = 0x2
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xA
)

// Close codes of RFC 6455, section 7.4.1, that this package itself speaks of.
// The codes of the stream, 4000 and above, belong to package session.
const (
	codeNormal        = 1000
	codeProtocolError = 1002
	codeNoStatus      = 1005 // never on the wire: a close frame without a code
	codeInvalidText   = 1007
)

// Bits of a frame's first byte.
const (
	bitsReserved  = 0x70
	bitCompressed = 0x40 // RSV1, by RFC 7692
)

const (
	maxHeader  = 14  // 2 bytes, 8 of extended length, 4 of mask
	maxControl = 125 // payload of a control frame, RFC 6455 section 5.5

	// maxFragments bounds the frames of one message: without it a peer keeps
	// the parser busy with empty continuation frames that never reach maxMessage.
	maxFragments = 1024

	minCarry = 512 // first allocation for a split message
)

// A ProtocolError is a violation of RFC 6455 by the peer. The connection is to
// be closed with its code.
type ProtocolError struct {
	Code uint16 // 1002 or 1007
	Text string // what was wrong; also the reason of the close frame
}

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("websocket: %s (close %d)", e.Text, e.Code)
}

// The violations are values made once, so that refusing a peer allocates nothing.
var (
	errReservedBits    = &ProtocolError{codeProtocolError, "reserved bits set"}
	errOpcode          = &ProtocolError{codeProtocolError, "reserved opcode"}
	errUnmasked        = &ProtocolError{codeProtocolError, "frame not masked"}
	errControlFragment = &ProtocolError{codeProtocolError, "control frame fragmented"}
	errControlLength   = &ProtocolError{codeProtocolError, "control frame too long"}
	errLength          = &ProtocolError{codeProtocolError, "length not in its shortest form"}
	errLengthSign      = &ProtocolError{codeProtocolError, "length over 63 bits"}
	errContinuation    = &ProtocolError{codeProtocolError, "continuation of no message"}
	errInterleaved     = &ProtocolError{codeProtocolError, "message inside a message"}
	errClosePayload    = &ProtocolError{codeProtocolError, "close payload of one byte"}
	errCloseCode       = &ProtocolError{codeProtocolError, "close code not allowed"}
	errCloseText       = &ProtocolError{codeInvalidText, "close reason not UTF-8"}
	errText            = &ProtocolError{codeInvalidText, "text not UTF-8"}
	errInflate         = &ProtocolError{codeInvalidText, "compressed data corrupt"}
)

// EventKind tells what an Event is.
type EventKind uint8

// Kinds of events. EventNone means that the parser took all bytes and waits for more.
const (
	EventNone   EventKind = iota
	EventText             // a whole text message, checked UTF-8
	EventBinary           // a whole binary message
	EventPing
	EventPong
	EventClose  // Code, and the reason in Payload; the last event of a connection
	EventTooBig // a message passes the limit; messages are skipped from here on
)

// An Event is what Parser.Next found.
type Event struct {
	Kind    EventKind
	Code    uint16 // EventClose only; 1005 when the frame had none
	Payload []byte // unmasked; valid until the next call of Next, and only while its buffer is; of a
	// compressed message until the inflater is used again, by any parser
}

// A Parser is the server's side of RFC 6455 framing: it is fed with whatever
// bytes arrive and gives whole messages. It does no I/O, starts no goroutine and
// is owned by one goroutine at a time.
//
// A message that lies in one frame inside one buffer is unmasked in place and
// handed out without a copy, unless it is compressed. Anything else is assembled in a carry buffer that
// grows with the bytes received, never with the length announced, and is let go
// with the message: a parser between messages holds no memory but itself.
//
// The sequence of events, and the error that ends it, do not depend on how the
// bytes were cut into buffers.
type Parser struct {
	inflater *deflate.Decompressor // nil: no message may be compressed

	carry []byte         // the message so far, then what came of the current frame
	err   *ProtocolError // sticky
	need  uint64         // payload bytes of the current frame still to come
	limit int32          // most bytes of a message
	base  int32          // where the current frame begins in carry
	key   uint32         // mask of the current frame, turned to its next byte

	fragments uint16 // frames of the current message
	message   uint8  // opcode of the message being assembled; 0: none
	opcode    uint8  // of the current frame
	headLen   uint8
	head      [maxHeader]byte // a header that came in pieces

	fin     bool // of the current frame
	payload bool // the header is done, the payload is not
	held    bool // the last event's payload lies in carry[base:]
	discard bool // data messages are skipped
	closed  bool // a close frame came: nothing after it counts

	compressed bool // the message being assembled
}

// NewParser returns a parser that takes messages of up to maxMessage bytes.
func NewParser(maxMessage int) Parser {
	return Parser{limit: int32(min(max(maxMessage, 0), 1<<30))}
}

// AllowDeflate makes the parser take messages compressed by RFC 7692 without context
// takeover. Many parsers of one goroutine may share an inflater. It is called before
// the first Next.
func (p *Parser) AllowDeflate(inflater *deflate.Decompressor) { p.inflater = inflater }

// Discard makes the parser skip data messages from here on, and report control
// frames only. It is for a connection that is being closed.
func (p *Parser) Discard() {
	p.discard = true
	if !p.payload {
		p.carry, p.held = nil, false
	}
}

// Next parses buf up to the end of the next event and returns how many bytes it
// took. It writes to buf (unmasking). EventNone means that all of buf was taken.
// An error is a *ProtocolError and final.
func (p *Parser) Next(buf []byte) (ev Event, n int, err error) {
	p.release()
	for n < len(buf) {
		if p.err != nil {
			return Event{}, n, p.err
		}
		if p.closed {
			return Event{}, len(buf), nil
		}
		if !p.payload {
			k, done := p.header(buf[n:])
			n += k
			if p.err != nil {
				return Event{}, n, p.err
			}
			if !done {
				return Event{}, n, nil
			}
			if p.tooBig() {
				p.discard, p.carry = true, nil
				if p.need == 0 {
					p.skipped()
				}
				return Event{Kind: EventTooBig}, n, nil
			}
		}
		k, ev := p.body(buf[n:])
		n += k
		if p.err != nil {
			return Event{}, n, p.err
		}
		if ev.Kind != EventNone {
			return ev, n, nil
		}
	}
	return Event{}, n, nil
}

// release lets go of what the last event handed out.
func (p *Parser) release() {
	if !p.held {
		return
	}
	p.held = false
	if p.base == 0 {
		p.carry = nil
	} else {
		p.carry = p.carry[:p.base]
	}
}

// header takes the bytes of a frame header from b. It returns how many, and
// whether the header is whole and the parser ready for the payload.
func (p *Parser) header(b []byte) (n int, done bool) {
	h := b
	if p.headLen > 0 || len(b) < maxHeader {
		// The header may be cut: collect it byte for byte, but never beyond its end.
		for n < len(b) && !p.headWhole() {
			p.head[p.headLen] = b[n]
			p.headLen++
			n++
		}
		if p.err = p.checkHead(p.head[:p.headLen]); p.err != nil || !p.headWhole() {
			return n, false
		}
		h = p.head[:p.headLen]
		p.headLen = 0
	} else if p.err = p.checkHead(b); p.err != nil {
		return 0, false
	}
	size := headSize(h[1])
	length := uint64(h[1] & 0x7f)
	switch length {
	case 126:
		length = uint64(binary.BigEndian.Uint16(h[2:]))
	case 127:
		length = binary.BigEndian.Uint64(h[2:])
	}
	p.key = binary.LittleEndian.Uint32(h[size-4:])
	p.need = length
	p.fin = h[0]&0x80 != 0
	p.opcode = h[0] & 0x0f
	if n == 0 {
		n = size
	}
	if p.err = p.sequence(h[0]&bitCompressed != 0); p.err != nil {
		return n, false
	}
	p.payload = true
	p.base = int32(len(p.carry))
	return n, true
}

func (p *Parser) headWhole() bool {
	return p.headLen >= 2 && int(p.headLen) == headSize(p.head[1])
}

// headSize is the size of the header whose second byte is b, of a masked frame.
func headSize(b byte) int {
	switch b & 0x7f {
	case 126:
		return 8
	case 127:
		return 14
	}
	return 6
}

// checkHead judges as much of a header as has come: a violation is found at the
// same byte however the input was cut.
func (p *Parser) checkHead(h []byte) *ProtocolError {
	if len(h) < 2 {
		return nil
	}
	opcode, length := h[0]&0x0f, h[1]&0x7f
	switch {
	case h[0]&bitsReserved != 0 && !p.mayCompress(h[0]):
		return errReservedBits
	case opcode > opBinary && opcode < opClose, opcode > opPong:
		return errOpcode
	case h[1]&0x80 == 0:
		return errUnmasked
	case opcode >= opClose && h[0]&0x80 == 0:
		return errControlFragment
	case opcode >= opClose && length > maxControl:
		return errControlLength
	case length == 126 && len(h) >= 4 && binary.BigEndian.Uint16(h[2:]) < 126:
		return errLength
	case length == 127 && len(h) >= 10 && binary.BigEndian.Uint64(h[2:]) < 1<<16:
		return errLength
	case length == 127 && len(h) >= 10 && h[2]&0x80 != 0:
		return errLengthSign
	}
	return nil
}

// mayCompress tells whether a frame that begins with b, with some reserved bit set, may have
// just that: only the first frame of a message says that it is compressed (RFC 7692, section 6).
func (p *Parser) mayCompress(b byte) bool {
	opcode := b & 0x0f
	return p.inflater != nil && b&bitsReserved == bitCompressed && (opcode == opText || opcode == opBinary)
}

// sequence judges the frame's place among the frames before it.
func (p *Parser) sequence(compressed bool) *ProtocolError {
	switch {
	case p.opcode >= opClose:
	case p.opcode == opContinuation:
		if p.message == 0 {
			return errContinuation
		}
		if p.fragments < maxFragments+1 {
			p.fragments++
		}
	case p.message != 0:
		return errInterleaved
	default:
		p.message = p.opcode
		p.fragments = 1
		p.compressed = compressed
	}
	return nil
}

// tooBig tells whether the frame whose header was just read takes its message
// over a limit for the first time.
func (p *Parser) tooBig() bool {
	if p.opcode >= opClose || p.discard {
		return false
	}
	return p.need > uint64(int(p.limit)-len(p.carry)) || p.fragments > maxFragments
}

// body takes payload bytes from b, and returns the event that they complete.
func (p *Parser) body(b []byte) (n int, ev Event) {
	control := p.opcode >= opClose
	n = int(min(p.need, uint64(len(b))))
	p.need -= uint64(n)
	if p.discard && !control {
		if p.need == 0 {
			p.skipped()
		}
		return n, Event{}
	}
	b = b[:n]
	// Whole in this buffer, and nothing to be put before it: no copy.
	inPlace := p.need == 0 && len(p.carry) == int(p.base) && (control || p.fin && p.base == 0)
	if !inPlace {
		b = p.keep(b)
	}
	p.key = unmask(b, p.key)
	if p.need > 0 {
		return n, Event{}
	}
	p.payload = false
	if !control && !p.fin {
		return n, Event{}
	}
	if !inPlace {
		if !control {
			p.base = 0
		}
		p.held = true
		b = p.carry[p.base:]
	}
	if control {
		return n, p.control(b)
	}
	return n, p.data(b)
}

// keep appends b to the carry and returns where it lies now. The carry at most
// doubles, and never passes one message and one control frame.
func (p *Parser) keep(b []byte) []byte {
	old := len(p.carry)
	if want := old + len(b); want > cap(p.carry) {
		room := min(max(want, 2*cap(p.carry), minCarry), max(want, int(p.limit)+maxControl))
		p.carry = append(make([]byte, 0, room), p.carry...)
	}
	p.carry = append(p.carry, b...)
	return p.carry[old:]
}

// skipped ends a data frame that was discarded.
func (p *Parser) skipped() {
	p.payload = false
	p.carry = nil
	if p.fin {
		p.message = 0
	}
}

func (p *Parser) data(payload []byte) Event {
	kind := EventBinary
	if p.compressed {
		var err error
		payload, err = p.inflater.Inflate(payload, int(p.limit))
		switch {
		case errors.Is(err, deflate.ErrTooBig):
			p.discard, p.carry, p.held = true, nil, false
			p.skipped()
			return Event{Kind: EventTooBig}
		case err != nil:
			p.err = errInflate
			return Event{}
		}
	}
	if p.message == opText {
		kind = EventText
		if !utf8.Valid(payload) {
			p.err = errText
			return Event{}
		}
	}
	p.message = 0
	return Event{Kind: kind, Payload: payload}
}

func (p *Parser) control(payload []byte) Event {
	switch p.opcode {
	case opPing:
		return Event{Kind: EventPing, Payload: payload}
	case opPong:
		return Event{Kind: EventPong, Payload: payload}
	}
	p.closed = true
	if len(payload) == 0 {
		return Event{Kind: EventClose, Code: codeNoStatus}
	}
	if len(payload) == 1 {
		p.err = errClosePayload
		return Event{}
	}
	code, reason := binary.BigEndian.Uint16(payload), payload[2:]
	switch {
	case !closeCodeAllowed(code):
		p.err = errCloseCode
		return Event{}
	case !utf8.Valid(reason):
		p.err = errCloseText
		return Event{}
	}
	return Event{Kind: EventClose, Code: code, Payload: reason}
}

// closeCodeAllowed tells whether a peer may send code: RFC 6455 section 7.4 and
// the codes registered with IANA since (1012 to 1014).
func closeCodeAllowed(code uint16) bool {
	switch {
	case code >= 1000 && code <= 1003, code >= 1007 && code <= 1014:
		return true
	}
	return code >= 3000 && code <= 4999
}

// unmask applies the mask key, whose lowest byte is for b[0], and returns the
// key turned for the byte after b.
func unmask(b []byte, key uint32) uint32 {
	if len(b) >= 8 {
		wide := uint64(key)<<32 | uint64(key)
		for len(b) >= 8 {
			binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)^wide)
			b = b[8:]
		}
	}
	for i := range b {
		b[i] ^= byte(key)
		key = bits.RotateLeft32(key, -8)
	}
	return key
}

// appendClose appends a close frame. A code of 1005 gives a frame without one. A
// reason that does not fit is cut between two characters.
func appendClose(b []byte, code uint16, reason string) []byte {
	if code == codeNoStatus {
		return append(b, 0x80|opClose, 0)
	}
	if len(reason) > maxControl-2 {
		end := maxControl - 2
		for end > 0 && !utf8.RuneStart(reason[end]) {
			end--
		}
		reason = reason[:end]
	}
	b = append(b, 0x80|opClose, byte(2+len(reason)), byte(code>>8), byte(code))
	return append(b, reason...)
}

// appendPong appends a pong frame; payload is that of a ping, so at most 125 bytes.
func appendPong(b, payload []byte) []byte {
	b = append(b, 0x80|opPong, byte(len(payload)))
	return append(b, payload...)
}
