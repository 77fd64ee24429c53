package rest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strconv"
)

// A cursor of history is a place with the question that it is a place of: a byte for the form, eight of
// the question, N, and the epoch.
const (
	historyCursor = 'h'
	questionBytes = 8
)

// question is a fingerprint of what is asked: of all that makes a series of rows another, or its order
// another. limit does not.
func (x *history) question() (sum [questionBytes]byte) {
	b := append([]byte(x.path), 0)
	b = append(x.series.Instrument.Append(b), 0, byte(x.series.Channel), byte(x.series.Interval))
	b = binary.LittleEndian.AppendUint64(b, uint64(x.start))
	b = binary.LittleEndian.AppendUint64(b, uint64(x.end))
	b = binary.LittleEndian.AppendUint64(b, x.after)
	b = strconv.AppendBool(strconv.AppendBool(b, x.since), x.desc)
	b = append(b, x.epoch...)
	whole := sha256.Sum256(b)
	copy(sum[:], whole[:])
	return sum
}

// cursor is the text of a place.
func (x *history) cursor(at place) string {
	sum := x.question()
	b := append([]byte{historyCursor}, sum[:]...)
	b = binary.AppendUvarint(b, at.n)
	b = append(b, at.epoch...)
	return base64.RawURLEncoding.EncodeToString(b)
}

// parseCursor reads a cursor of the same question.
func parseCursor(text string, x *history) (at place, ok bool) {
	if len(text) > maxCursor {
		return at, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < 1+questionBytes || b[0] != historyCursor {
		return at, false
	}
	sum := x.question()
	if string(b[1:1+questionBytes]) != string(sum[:]) {
		return at, false
	}
	n, size := binary.Uvarint(b[1+questionBytes:])
	epoch := b[min(len(b), 1+questionBytes+max(0, size)):]
	if size <= 0 || n >= 1<<63 || len(epoch) == 0 {
		return at, false
	}
	return place{epoch: string(epoch), n: n}, true
}
