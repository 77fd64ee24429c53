package wire

import "encoding/binary"

// Format is how a connection's messages are put into frames: one of JSON, Batch and
// Msgpack, and Deflate added to it where permessage-deflate was agreed on.
type Format uint8

// Formats. The zero value is what a client gets that asks for nothing.
const (
	JSON    Format = 0 // one JSON object a text frame
	Batch   Format = 1 // a JSON array of one or more objects a text frame
	Msgpack Format = 2 // one MessagePack map a binary frame
	Deflate Format = 4 // to be added: frames compressed by RFC 7692, no context taken over
)

// Subprotocol is the name by which a client asks for a format.
func (f Format) Subprotocol() string {
	switch f &^ Deflate {
	case Batch:
		return "rueda.v1.json.batch"
	case Msgpack:
		return "rueda.v1.msgpack"
	}
	return "rueda.v1.json"
}

// ParseSubprotocol is the format of that name, which is matched exactly.
func ParseSubprotocol(name string) (Format, bool) {
	for f := JSON; f <= Msgpack; f++ {
		if f.Subprotocol() == name {
			return f, true
		}
	}
	return JSON, false
}

// First bytes of final, unmasked frames, and the bit that says "compressed".
const (
	frameText   = 0x81
	frameBinary = 0x82
	frameRSV1   = 0x40
)

const (
	maxBatch   = 256 << 10 // bytes of a batch, so that its reader sees the first message before the last is made
	minDeflate = 200       // a smaller payload is not worth the reader's work
)

// A Transcoder puts messages from the form that they were encoded in once into the
// format of a client. It holds scratch memory of what the largest call needed, so there is one for
// many connections; it belongs to one goroutine at a time. In the steady state it does not allocate.
type Transcoder struct {
	// Compress appends a payload as RFC 7692 has it from a side that takes no context over,
	// without the four bytes at its end. Without it Deflate changes nothing.
	Compress func(dst, payload []byte) []byte

	payload []byte
	small   []byte
}

// Append appends the messages of frames in format f. frames is a run of whole text frames
// as AppendText makes them; a part of a frame at its end is left out. Batch makes one frame of all messages,
// or as many as maxBatch asks for; the other formats keep to a frame a message. A frame whose
// payload would not get smaller, or is under 200 bytes, is not compressed.
func (t *Transcoder) Append(dst, frames []byte, f Format) []byte {
	if t.Compress == nil {
		f &^= Deflate
	}
	switch f {
	case JSON:
		return append(dst, frames...)
	case Batch, Batch | Deflate:
		for len(frames) > 0 {
			dst, frames = t.appendBatch(dst, frames, f)
		}
		return dst
	}
	for len(frames) > 0 {
		payload, rest := cutText(frames)
		if rest == nil {
			break
		}
		frames = rest
		first := byte(frameText)
		if f&Msgpack != 0 {
			first = frameBinary
			t.payload = AppendPacked(t.payload[:0], payload)
			payload = t.payload
		}
		dst = t.appendFrame(dst, first, payload, f)
	}
	return dst
}

// appendBatch makes one frame of the messages that fit, and returns what is left of them.
func (t *Transcoder) appendBatch(dst, frames []byte, f Format) (out, left []byte) {
	b := append(t.payload[:0], '[')
	for len(frames) > 0 {
		payload, rest := cutText(frames)
		if rest == nil {
			frames = nil
			break
		}
		if len(b)+len(payload)+1 > maxBatch && len(b) > 1 {
			break
		}
		b = append(append(b, payload...), ',')
		frames = rest
	}
	t.payload = b
	if len(b) == 1 {
		return dst, frames
	}
	b[len(b)-1] = ']'
	return t.appendFrame(dst, frameText, b, f), frames
}

func (t *Transcoder) appendFrame(dst []byte, first byte, payload []byte, f Format) []byte {
	if f&Deflate != 0 && len(payload) >= minDeflate {
		t.small = t.Compress(t.small[:0], payload)
		if len(t.small) < len(payload) {
			first, payload = first|frameRSV1, t.small
		}
	}
	return append(appendFrameHead(dst, first, len(payload)), payload...)
}

// maxFrameHead is the size of the longest.
const maxFrameHead = 10

// appendFrameHead appends the head of an unmasked frame of n bytes.
func appendFrameHead(b []byte, first byte, n int) []byte {
	switch {
	case n < 126:
		return append(b, first, byte(n))
	case n < 1<<16:
		return append(b, first, 126, byte(n>>8), byte(n))
	}
	return binary.BigEndian.AppendUint64(append(b, first, 127), uint64(n))
}

// cutText takes the first frame off a run of frames without a mask. rest is nil where it is
// not whole.
func cutText(frames []byte) (payload, rest []byte) {
	if len(frames) < 2 {
		return nil, nil
	}
	head, n := 2, uint64(frames[1])
	switch {
	case n == 126 && len(frames) >= 4:
		head, n = 4, uint64(binary.BigEndian.Uint16(frames[2:]))
	case n == 127 && len(frames) >= 10:
		head, n = 10, binary.BigEndian.Uint64(frames[2:])
	case n > 125:
		return nil, nil
	}
	if uint64(len(frames)-head) < n {
		return nil, nil
	}
	return frames[head : head+int(n)], frames[head+int(n):]
}
