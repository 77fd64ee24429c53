package load

import "encoding/binary"

// The key and accept value of every upgrade are fixed, so that programs with fixed answers can be
// measured. They are the example of RFC 6455, section 1.3.
const (
	upgradeKey    = "dGhlIHNhbXBsZSBub25jZQ=="
	upgradeAccept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
)

const (
	opText   = 0x81
	opBinary = 0x82
	opClose  = 0x88
	opPing   = 0x89
	opPong   = 0x8A
)

// mask is the mask of all client frames.
const mask = 0x5A31C7E9

// appendFrame appends a masked frame.
func appendFrame(b []byte, op byte, payload []byte) []byte {
	b = append(b, op)
	switch n := len(payload); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = append(b, 0x80|126, byte(n>>8), byte(n))
	default:
		b = append(b, 0x80|127)
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	b = binary.BigEndian.AppendUint32(b, mask)
	for i, c := range payload {
		b = append(b, c^byte(uint32(mask)>>(24-8*(i&3))))
	}
	return b
}

// split returns the first byte, the payload, and the length with header of the first frame of b; n
// is 0 if it is incomplete.
func split(b []byte) (op byte, payload []byte, n int) {
	if len(b) < 2 {
		return 0, nil, 0
	}
	size, head := int(b[1]&0x7F), 2
	switch size {
	case 126:
		if len(b) < 4 {
			return 0, nil, 0
		}
		size, head = int(b[2])<<8|int(b[3]), 4
	case 127:
		if len(b) < 10 {
			return 0, nil, 0
		}
		size, head = int(binary.BigEndian.Uint32(b[6:])), 10 // frames are smaller than 4 GiB
	}
	if len(b) < head+size {
		return 0, nil, 0
	}
	return b[0], b[head : head+size], head + size
}
