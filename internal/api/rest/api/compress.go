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

// minCompressed is the size in bytes from which bodies are compressed. A smaller body fits into one
// packet.
const minCompressed = 1400

// Compressors compress bodies. They reuse compressors, because one for zstd takes about 2 MB and
// one for gzip about 1 MB. Do not compress bodies that contain secrets: an attacker who can add
// text to a body learns about the secret from the compressed length (the BREACH attack).
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

// Writer returns a writer that compresses into w, or nil if coding is CodingNone. The caller must
// call Close, which ends the compressed body and does not close w.
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

// resettable is a compressor that can be used for another body after Reset.
type resettable interface {
	io.WriteCloser
	Reset(io.Writer)
}

func newZstd(w io.Writer) (resettable, error) {
	return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(512<<10), zstd.WithLowerEncoderMem(true))
}

func newGzip(w io.Writer) (resettable, error) { return gzip.NewWriterLevel(w, gzip.BestSpeed) }

// compressor is a compressor from a pool. Close ends the body and gives the compressor back to the
// pool.
type compressor struct {
	resettable
	pool *sync.Pool
}

func (c *compressor) Close() error {
	err := c.resettable.Close()
	c.pool.Put(c.resettable)
	return err
}

// Compress returns body in a coding, and the coding that it used. It leaves a body below
// minCompressed unchanged and then returns CodingNone.
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

// Sizes of the pieces after which a reader yields. Reading, encoding and writing a page of ten
// thousand rows takes milliseconds. Between the pieces, the stream can send its messages.
const (
	YieldRows  = 256
	pieceBytes = 64 << 10
)

// InPieces calls write for each piece of body, and yields the processor after each piece.
func InPieces(body []byte, write func([]byte) (int, error)) error {
	for piece := range slices.Chunk(body, pieceBytes) {
		if _, err := write(piece); err != nil {
			return err
		}
		sched.Yield()
	}
	return nil
}
