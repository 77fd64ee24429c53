package socket

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"unicode/utf8"

	"github.com/ruedahq/rueda/internal/engine/deflate"
)

// Opcodes (RFC 6455, section 11.8).
const (
	opContinuation = 0x0
	opText         = 0x1
	opBinary       = 0x2
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xA
)

// Close codes that this package uses (RFC 6455, section 7.4.1). Package session has the codes of
// the stream, from 4000.
const (
	codeProtocolError = 1002
	codeNoStatus      = 1005 // stands for a close frame without a code
	codeInvalidText   = 1007
)

// Bits in the first byte of a frame.
const (
	bitsReserved  = 0x70
	bitCompressed = 0x40 // RSV1 (RFC 7692)
)

const (
	maxHeader  = 14  // 2 bytes, 8 of extended length, 4 of mask
	maxControl = 125 // payload of a control frame, RFC 6455 section 5.5

	// maxFragments bounds the frames of a message. Empty continuation frames never reach the size
	// limit.
	maxFragments = 1024

	minCarry = 512 // first allocation for a message in parts
)

// ProtocolError is a violation of RFC 6455 by the peer. Its code closes the connection.
type ProtocolError struct {
	Code uint16 // 1002 or 1007
	Text string // also the close reason
}

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("websocket: %s (close %d)", e.Text, e.Code)
}

// Violations are preallocated, so that refusing a peer allocates nothing.
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

// EventKind is the kind of an Event.
type EventKind uint8

// Kinds of events. After EventNone the parser needs more bytes.
const (
	EventNone   EventKind = iota
	EventText             // a complete text message, valid UTF-8
	EventBinary           // a complete binary message
	EventPing
	EventPong
	EventClose    // Code, and the reason in Payload; always the last event
	EventTooBig   // a message exceeds the limit; all later messages are skipped
	EventFragment // the end of a frame that ends no message, or whose message is skipped
)

// Event is a message or control frame that Parser.Next has found.
type Event struct {
	Kind    EventKind
	Code    uint16 // EventClose only; 1005 if the frame had none
	Payload []byte // unmasked; valid until the next call of Next (compressed: of any parser with the inflater)

	// Of a compressed message, also of one that is refused: its bytes, and those of Payload.
	Deflated, Inflated int
}

// Parser implements the server's side of RFC 6455 framing. It takes bytes in pieces of any size and
// returns complete messages. It does no I/O, and one goroutine at a time uses it.
//
// An uncompressed message in one frame and one buffer is unmasked in place and returned without a
// copy. Other messages are assembled in a carry buffer, which grows with the bytes received, never
// with the announced length, and is released with the message. A parser between messages holds no
// other memory.
//
// Events and errors do not depend on how the input was divided.
type Parser struct {
	inflater *deflate.Decompressor // nil: compression was not agreed on

	carry []byte         // the message so far, then the current control frame
	err   *ProtocolError // the first violation
	need  uint64         // payload bytes of the current frame that are missing
	limit int32          // of a message, in bytes
	small int32          // of a compressed message before it is inflated
	base  int32          // start of the current frame in carry
	key   uint32         // mask of the current frame, rotated to its next byte

	fragments uint16 // frames of the current message
	message   uint8  // opcode of the current message; 0: none
	opcode    uint8  // of the current frame
	headLen   uint8
	head      [maxHeader]byte // of a header that came in pieces

	fin     bool // of the current frame
	payload bool // inside the payload
	held    bool // the last event's payload is carry[base:]
	discard bool // skip data messages
	closed  bool // a close frame came; ignore everything after it

	compressed bool // the current message is compressed
}

// NewParser returns a parser for messages of at most maxMessage bytes.
func NewParser(maxMessage int) Parser {
	return Parser{limit: int32(min(max(maxMessage, 0), 1<<30))}
}

// AllowDeflate makes the parser accept messages that are compressed without context takeover (RFC
// 7692), with at most limit bytes. Parsers of one goroutine may share an inflater. Call it before
// Next.
func (p *Parser) AllowDeflate(inflater *deflate.Decompressor, limit int) {
	p.inflater, p.small = inflater, min(p.limit, int32(limit))
}

// Discard makes the parser skip data messages and return control frames only. It is for connections
// that are closing.
func (p *Parser) Discard() {
	p.discard = true
	if !p.payload {
		p.carry, p.held = nil, false
	}
}

// Next parses buf up to the next event, which is at the end of a frame or before, and returns the
// number of bytes used. It unmasks payload in buf. EventNone means that all of buf was used. An
// error is a *ProtocolError; every later call returns it again.
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
			if p.exceedsLimit() {
				p.discard, p.carry = true, nil
				if p.need == 0 {
					p.endSkipped()
				}
				return Event{Kind: EventTooBig}, n, nil
			}
		}
		k, ev := p.body(buf[n:])
		n += k
		if p.err != nil {
			return Event{Deflated: ev.Deflated}, n, p.err
		}
		if ev.Kind != EventNone {
			return ev, n, nil
		}
	}
	return Event{}, n, nil
}

// release releases the payload of the last event.
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

// header parses a frame header from b. It returns the number of bytes used, and whether the header
// is complete.
func (p *Parser) header(b []byte) (n int, done bool) {
	h := b
	if p.headLen > 0 || len(b) < maxHeader {
		// The header may be incomplete: collect it byte by byte, and nothing after it.
		for n < len(b) && !p.headComplete() {
			p.head[p.headLen] = b[n]
			p.headLen++
			n++
		}
		if p.err = p.checkHead(p.head[:p.headLen]); p.err != nil || !p.headComplete() {
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
	if p.err = p.checkSequence(h[0]&bitCompressed != 0); p.err != nil {
		return n, false
	}
	p.payload = true
	p.base = int32(len(p.carry))
	return n, true
}

// headComplete reports whether p.head is a complete header.
func (p *Parser) headComplete() bool {
	return p.headLen >= 2 && int(p.headLen) == headSize(p.head[1])
}

// headSize returns the size of a masked frame's header with b as its second byte.
func headSize(b byte) int {
	switch b & 0x7f {
	case 126:
		return 8
	case 127:
		return 14
	}
	return 6
}

// checkHead checks the part of a header that has arrived, so that a violation is found at the same
// byte however the input is divided.
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

// mayCompress reports whether b begins a compressed message. Only the first frame of a message has
// the bit (RFC 7692, section 6).
func (p *Parser) mayCompress(b byte) bool {
	opcode := b & 0x0f
	return p.inflater != nil && b&bitsReserved == bitCompressed && (opcode == opText || opcode == opBinary)
}

// checkSequence checks the frame against the frames before it.
func (p *Parser) checkSequence(compressed bool) *ProtocolError {
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

// exceedsLimit reports whether the current frame is the first that exceeds a limit of its message.
func (p *Parser) exceedsLimit() bool {
	if p.opcode >= opClose || p.discard {
		return false
	}
	limit := p.limit
	if p.compressed {
		limit = p.small
	}
	return p.need > uint64(int(limit)-len(p.carry)) || p.fragments > maxFragments
}

// body consumes payload from b and returns the event that it completes.
func (p *Parser) body(b []byte) (n int, ev Event) {
	control := p.opcode >= opClose
	n = int(min(p.need, uint64(len(b))))
	p.need -= uint64(n)
	if p.discard && !control {
		if p.need > 0 {
			return n, Event{}
		}
		p.endSkipped()
		return n, Event{Kind: EventFragment}
	}
	b = b[:n]
	// No copy if the payload is complete in this buffer and nothing precedes it.
	inPlace := p.need == 0 && len(p.carry) == int(p.base) && (control || p.fin && p.base == 0)
	if !inPlace {
		b = p.carryOver(b)
	}
	p.key = unmask(b, p.key)
	if p.need > 0 {
		return n, Event{}
	}
	p.payload = false
	if !control && !p.fin {
		return n, Event{Kind: EventFragment}
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

// carryOver appends b to carry and returns the copy. The capacity at most doubles, up to one
// message and one control frame.
func (p *Parser) carryOver(b []byte) []byte {
	old := len(p.carry)
	if want := old + len(b); want > cap(p.carry) {
		size := min(max(want, 2*cap(p.carry), minCarry), max(want, int(p.limit)+maxControl))
		p.carry = append(make([]byte, 0, size), p.carry...)
	}
	p.carry = append(p.carry, b...)
	return p.carry[old:]
}

// endSkipped ends a data frame that was skipped.
func (p *Parser) endSkipped() {
	p.payload = false
	p.carry = nil
	if p.fin {
		p.message = 0
	}
}

// data returns the event of a complete message.
func (p *Parser) data(payload []byte) Event {
	kind, deflated, inflated := EventBinary, 0, 0
	if p.compressed {
		deflated = len(payload)
		var err error
		payload, err = p.inflater.Inflate(payload, int(p.limit))
		switch {
		case errors.Is(err, deflate.ErrTooBig):
			p.discard, p.carry, p.held = true, nil, false
			p.endSkipped()
			return Event{Kind: EventTooBig, Deflated: deflated}
		case err != nil:
			p.err = errInflate
			return Event{Deflated: deflated}
		}
		inflated = len(payload)
	}
	if p.message == opText {
		kind = EventText
		if !utf8.Valid(payload) {
			p.err = errText
			return Event{Deflated: deflated}
		}
	}
	p.message = 0
	return Event{Kind: kind, Payload: payload, Deflated: deflated, Inflated: inflated}
}

// control returns the event of a control frame.
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

// closeCodeAllowed reports whether a peer may send code: RFC 6455 section 7.4, and 1012 to 1014,
// which IANA has registered since.
func closeCodeAllowed(code uint16) bool {
	switch {
	case code >= 1000 && code <= 1003, code >= 1007 && code <= 1014:
		return true
	}
	return code >= 3000 && code <= 4999
}

// unmask applies the mask key, whose lowest byte is for b[0], and returns the key rotated for the
// byte after b.
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

// appendClose appends a close frame; without a code for 1005. A reason that is too long is cut
// between two characters.
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

// appendPong appends a pong frame with the payload of a ping, at most 125 bytes.
func appendPong(b, payload []byte) []byte {
	b = append(b, 0x80|opPong, byte(len(payload)))
	return append(b, payload...)
}
