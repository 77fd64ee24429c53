package wire

import "github.com/ruedahq/rueda/internal/base/frame"

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

	Done Transcoded // by all calls

	payload []byte
	small   []byte
}

// Transcoded counts what a Transcoder has done that takes time.
type Transcoded struct {
	Messages   int // that were converted to MessagePack
	Compressed int // frames
	Bytes      int // in these frames, before they were compressed
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
		_, payload, size := frame.Split(frames)
		if size == 0 {
			break
		}
		frames = frames[size:]
		first := byte(frame.Text)
		if f&Msgpack != 0 {
			first = frame.Binary
			t.Done.Messages++
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
		_, payload, size := frame.Split(frames)
		if size == 0 {
			frames = nil
			break
		}
		if len(b)+len(payload)+1 > maxBatch && len(b) > 1 {
			break
		}
		b = append(append(b, payload...), ',')
		frames = frames[size:]
	}
	t.payload = b
	if len(b) == 1 {
		return dst, frames
	}
	b[len(b)-1] = ']'
	return t.appendFrame(dst, frame.Text, b, f), frames
}

func (t *Transcoder) appendFrame(dst []byte, first byte, payload []byte, f Format) []byte {
	if f&Deflate != 0 && len(payload) >= minDeflate {
		t.Done.Compressed++
		t.Done.Bytes += len(payload)
		t.small = t.Compress(t.small[:0], payload)
		if len(t.small) < len(payload) {
			first, payload = first|frame.Compressed, t.small
		}
	}
	return append(frame.AppendHead(dst, first, len(payload)), payload...)
}
