package record

import (
	"errors"

	"github.com/klauspost/compress/zstd"
)

// MaxUnpacked bounds the size of a decompressed block: the longest frame and its header.
const MaxUnpacked = 8*maxFrame + SpanBytes

// ErrChecksum means that data is not what was written.
var ErrChecksum = errors.New("wrong checksum or length")

// Unpack decompresses data whose checksum and length are known.
func Unpack(d *zstd.Decoder, dst, raw []byte, sum uint32, bytes int64) ([]byte, error) {
	if Checksum(raw) != sum {
		return dst, ErrChecksum
	}
	dst, err := d.DecodeAll(raw, dst[:0])
	if err == nil && int64(len(dst)) != bytes {
		err = ErrChecksum
	}
	return dst, err
}
