package api

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/ruedahq/rueda/internal/base/sched"
)

// Content codings (RFC 9110, section 8.4.1) of answers.
const (
	CodingNone = ""
	codingGzip = "gzip"
	codingZstd = "zstd"
)

// minCompressed is the smallest body in bytes that is compressed. A smaller one fits a packet.
const minCompressed = 1400

// Compressors compress bodies. They are pooled, because one for zstd takes about 2 MB and one for
// gzip 1 MB. Bodies with secrets must not be compressed: the length of a compressed text reveals a
// secret next to words of an attacker (the BREACH attack).
type Compressors struct {
	zstd, gzip sync.Pool // of resettable
}

// Coding returns the content coding that Accept-Encoding (RFC 9110, section 12.5.3) prefers: zstd
// before gzip, unless the client prefers gzip.
func Coding(values []string) string {
	var best string
	var most float64
	ranges := 0
	for _, value := range values {
		for member := range strings.SplitSeq(value, ",") {
			if ranges++; ranges > maxRanges {
				return best
			}
			name, param, _ := strings.Cut(member, ";")
			name = strings.ToLower(strings.TrimSpace(name))
			q := 1.0
			if key, v, ok := strings.Cut(strings.TrimSpace(param), "="); ok && strings.EqualFold(key, "q") {
				q = quality(v)
			}
			switch name {
			case codingZstd:
			case codingGzip, "x-gzip", "*":
				name = codingGzip
			default:
				continue
			}
			if q > most || q == most && q > 0 && name == codingZstd {
				best, most = name, q
			}
		}
	}
	return best
}

// Writer returns a writer that compresses into w, or nil without a coding. Close ends the
// compressed body, not w, and must be called.
func (p *Compressors) Writer(w io.Writer, coding string) (io.WriteCloser, error) {
	var pool *sync.Pool
	var create func(io.Writer) (resettable, error)
	switch coding {
	case codingZstd:
		pool, create = &p.zstd, newZstd
	case codingGzip:
		pool, create = &p.gzip, newGzip
	default:
		return nil, nil
	}
	z, ok := pool.Get().(resettable)
	if ok {
		z.Reset(w)
		return &compressor{z, pool}, nil
	}
	z, err := create(w)
	return &compressor{z, pool}, err
}

// resettable is a compressor that can start another body.
type resettable interface {
	io.WriteCloser
	Reset(io.Writer)
}

func newZstd(w io.Writer) (resettable, error) {
	return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(512<<10), zstd.WithLowerEncoderMem(true))
}

func newGzip(w io.Writer) (resettable, error) { return gzip.NewWriterLevel(w, gzip.BestSpeed) }

// compressor is a compressor of a pool. Close ends the body and returns it there.
type compressor struct {
	resettable
	pool *sync.Pool
}

func (c *compressor) Close() error {
	err := c.resettable.Close()
	c.pool.Put(c.resettable)
	return err
}

// Compress returns body in a coding, and the coding that was used. A small body stays as it is.
func (p *Compressors) Compress(body []byte, coding string) (_ []byte, used string) {
	if coding == CodingNone || len(body) < minCompressed {
		return body, CodingNone
	}
	out := bytes.NewBuffer(make([]byte, 0, len(body)/4))
	z, err := p.Writer(out, coding)
	if err != nil {
		return body, CodingNone // wrong options, which tests would find
	}
	err = InPieces(body, z.Write)
	if cerr := z.Close(); err != nil || cerr != nil {
		return body, CodingNone
	}
	return out.Bytes(), coding
}

// A page of ten thousand rows takes milliseconds to read, encode and write. The reader yields after
// each piece of this work, so that messages of the stream do not wait for all of it.
const (
	YieldRows  = 256
	pieceBytes = 64 << 10
)

// InPieces writes a body in pieces and yields between them.
func InPieces(body []byte, write func([]byte) (int, error)) error {
	for piece := range slices.Chunk(body, pieceBytes) {
		if _, err := write(piece); err != nil {
			return err
		}
		sched.Yield()
	}
	return nil
}
