package wire

import "encoding/binary"

// Format is the encoding of a connection's messages: JSON, Batch or Msgpack, combined with Deflate
// if permessage-deflate was negotiated.
type Format uint8

// Formats. The zero value is the default.
const (
	JSON    Format = 0 // one JSON object per text frame
	Batch   Format = 1 // a JSON array of one or more objects per text frame
	Msgpack Format = 2 // one MessagePack map per binary frame
	Deflate Format = 4 // flag: frames are compressed (RFC 7692) without context takeover
)

// Subprotocol returns the name by which a client requests a format.
func (f Format) Subprotocol() string {
	switch f &^ Deflate {
	case Batch:
		return "rueda.v1.json.batch"
	case Msgpack:
		return "rueda.v1.msgpack"
	}
	return "rueda.v1.json"
}

// ParseSubprotocol returns the format with the given name. The match is exact.
func ParseSubprotocol(name string) (Format, bool) {
	for f := JSON; f <= Msgpack; f++ {
		if f.Subprotocol() == name {
			return f, true
		}
	}
	return JSON, false
}

// First bytes of final, unmasked frames, and the bit that marks compression.
const (
	frameText   = 0x81
	frameBinary = 0x82
	frameRSV1   = 0x40
)

const (
	// bytes in a batch; the reader gets its first message before the last is encoded
	maxBatch   = 256 << 10
	minDeflate = 200 // smaller payloads are not worth compressing
)

// A Transcoder converts messages from their encoded form to the format of a client. Its buffers
// grow to the largest call; in the steady state it does not allocate. One Transcoder can serve many
// connections, but only one goroutine at a time.
type Transcoder struct {
	// Compress appends the payload compressed as RFC 7692 requires for a sender without context
	// takeover, without the trailing four bytes. If it is nil, Deflate has no effect.
	Compress func(dst, payload []byte) []byte

	payload []byte
	small   []byte
}

// Append appends the messages of frames in format f. frames is a sequence of complete text frames
// made by AppendText; an incomplete frame at the end is ignored. Batch puts all messages into one
// frame, or into several if they exceed maxBatch. The other formats write one frame per message. A
// frame is not compressed if its payload is under 200 bytes or would not get smaller.
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
			t.payload = AppendMsgpack(t.payload[:0], payload)
			payload = t.payload
		}
		dst = t.appendFrame(dst, first, payload, f)
	}
	return dst
}

// appendBatch appends one frame with the messages that fit and returns the frames that remain.
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

// maxFrameHead is the size of the longest frame header.
const maxFrameHead = 10

// appendFrameHead appends the header of an unmasked frame with a payload of n bytes.
func appendFrameHead(b []byte, first byte, n int) []byte {
	switch {
	case n < 126:
		return append(b, first, byte(n))
	case n < 1<<16:
		return append(b, first, 126, byte(n>>8), byte(n))
	}
	return binary.BigEndian.AppendUint64(append(b, first, 127), uint64(n))
}

// cutText returns the payload of the first of a sequence of unmasked frames, and the frames after
// it. rest is nil if the frame is incomplete.
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
