package rest

import (
	"io"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Content codings (RFC 9110, section 8.4.1) of answers.
const (
	codingNone = ""
	codingGzip = "gzip"
	codingZstd = "zstd"
)

// minPacked is the least that is worth compressing, in bytes: less fits a packet or two anyway.
const minPacked = 1400

// packers make compressed bodies and keep the compressors for reuse: a zstd one has about
// 2 MB, one of gzip 1 MB. Only what holds no secret goes through here: from the length of a
// compressed text one can find out a secret in it that stands beside words of an attacker (the
// BREACH attack).
type packers struct {
	zstd sync.Pool // of *zstd.Encoder
	gzip sync.Pool // of *gzip.Writer
}

// coding is what of Accept-Encoding (RFC 9110, section 12.5.3) an answer is packed with:
// zstd before gzip, unless the client prefers it the other way.
func coding(values []string) string {
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

// writer packs what is written to it into w; nil for no coding. Close ends the packed body,
// not w, and must be called.
func (p *packers) writer(w io.Writer, coding string) (io.WriteCloser, error) {
	switch coding {
	case codingZstd:
		if z, ok := p.zstd.Get().(*zstd.Encoder); ok {
			z.Reset(w)
			return &packed{z, func() { p.zstd.Put(z) }}, nil
		}
		z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithWindowSize(512<<10), zstd.WithLowerEncoderMem(true))
		if err != nil {
			return nil, err
		}
		return &packed{z, func() { p.zstd.Put(z) }}, nil
	case codingGzip:
		if z, ok := p.gzip.Get().(*gzip.Writer); ok {
			z.Reset(w)
			return &packed{z, func() { p.gzip.Put(z) }}, nil
		}
		z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
		if err != nil {
			return nil, err
		}
		return &packed{z, func() { p.gzip.Put(z) }}, nil
	}
	return nil, nil
}

// packed is a compressor that goes back to its pool.
type packed struct {
	io.WriteCloser
	back func()
}

// Close ends the packed body.
func (p *packed) Close() error {
	err := p.WriteCloser.Close()
	p.back()
	return err
}

// pack is body in a coding. Without one, or where it is not worth it, it is body itself.
func (p *packers) pack(body []byte, coding string) (_ []byte, used string) {
	if coding == codingNone || len(body) < minPacked {
		return body, codingNone
	}
	var out bytesWriter
	out.b = make([]byte, 0, len(body)/4)
	z, err := p.writer(&out, coding)
	if err != nil {
		return body, codingNone // of options that are wrong, which tests would find
	}
	err = inPieces(body, z.Write)
	if cerr := z.Close(); err != nil || cerr != nil {
		return body, codingNone
	}
	return out.b, coding
}

// bytesWriter appends what is written, and takes everything.
type bytesWriter struct{ b []byte }

func (w *bytesWriter) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}
