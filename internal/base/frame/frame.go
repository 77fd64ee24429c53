// Package frame encodes and splits the frames of WebSocket messages (RFC 6455, section 5.2).
// Package socket has a parser of its own for the frames of clients, which it checks byte by byte.
package frame

import "encoding/binary"

// First bytes of frames that are whole messages, and the bit of the first byte that says that the
// message is compressed (RFC 7692).
const (
	Text       = 0x81
	Binary     = 0x82
	Close      = 0x88
	Ping       = 0x89
	Pong       = 0x8A
	Compressed = 0x40
)

// MaxHead is the size of the longest header of an unmasked frame.
const MaxHead = 10

// AppendHead appends the header of an unmasked frame, as a server sends it, with a payload of n
// bytes.
func AppendHead(b []byte, first byte, n int) []byte { return appendHead(b, first, 0, n) }

// AppendMasked appends a masked frame, as a client sends it.
func AppendMasked(b []byte, first byte, mask uint32, payload []byte) []byte {
	b = binary.BigEndian.AppendUint32(appendHead(b, first, 0x80, len(payload)), mask)
	for i, c := range payload {
		b = append(b, c^byte(mask>>(24-8*(i&3))))
	}
	return b
}

func appendHead(b []byte, first, masked byte, n int) []byte {
	switch {
	case n < 126:
		return append(b, first, masked|byte(n))
	case n < 1<<16:
		return append(b, first, masked|126, byte(n>>8), byte(n))
	}
	return binary.BigEndian.AppendUint64(append(b, first, masked|127), uint64(n))
}

// Split returns the first byte and the payload of the first of a sequence of unmasked frames, and
// the size of that frame with its header. The size is 0 if the frame is incomplete.
func Split(b []byte) (first byte, payload []byte, size int) {
	if len(b) < 2 {
		return 0, nil, 0
	}
	head, n := 2, uint64(b[1])
	switch {
	case n == 126 && len(b) >= 4:
		head, n = 4, uint64(binary.BigEndian.Uint16(b[2:]))
	case n == 127 && len(b) >= MaxHead:
		head, n = MaxHead, binary.BigEndian.Uint64(b[2:])
	case n > 125:
		return 0, nil, 0
	}
	if uint64(len(b)-head) < n {
		return 0, nil, 0
	}
	size = head + int(n)
	return b[0], b[head:size], size
}
