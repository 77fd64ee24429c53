package deflate

import (
	"compress/flate"
	"errors"
	"io"
)

// Why a payload is not taken.
var (
	ErrCorrupt = errors.New("compressed data corrupt")
	ErrTooBig  = errors.New("more than the limit when decompressed")
)

const (
	window = 1 << 15 // bytes that a distance reaches back

	// maxStreams bounds the streams of one payload, each ended by a "last" block: RFC 7692
	// section 7.2.1 allows any number, and beginning one costs far more than the byte it takes.
	maxStreams = 64

	minOutput = 1 << 10 // first allocation
)

// tail is what the sender left off (RFC 7692, section 7.2.2), and an empty last block, so that
// a reader comes to a clean end.
const tail = "\x00\x00\xff\xff\x01\x00\x00\xff\xff"

// A Decompressor reads compressed payloads. It holds about 45 KiB and a buffer that the largest
// payload needed, which is bounded by the limit given. The zero value is ready; it belongs to
// one goroutine at a time.
type Decompressor struct {
	source source
	reader io.ReadCloser
	out    []byte
}

// Inflate decompresses a payload of up to limit bytes. It stops at the first byte past
// that, however much more there would be. The result is valid until the next call. The
// error is ErrCorrupt or ErrTooBig.
func (d *Decompressor) Inflate(payload []byte, limit int) ([]byte, error) {
	defer func() { d.source = source{} }()
	d.out = d.out[:0]
	for range maxStreams {
		done, err := d.stream(&payload, limit)
		if err != nil || done {
			return d.out, err
		}
	}
	return nil, ErrCorrupt
}

// stream reads one deflate stream off payload, up to its last block.
func (d *Decompressor) stream(payload *[]byte, limit int) (done bool, err error) {
	d.source = source{payload: *payload}
	dict := d.out[max(0, len(d.out)-window):]
	if d.reader == nil {
		d.reader = flate.NewReaderDict(&d.source, dict)
	} else if err := d.reader.(flate.Resetter).Reset(&d.source, dict); err != nil {
		return false, ErrCorrupt
	}
	for {
		d.grow(limit)
		n, err := d.reader.Read(d.out[len(d.out):cap(d.out)])
		d.out = d.out[:len(d.out)+n]
		switch {
		case len(d.out) > limit:
			return false, ErrTooBig
		case err == nil:
			continue
		case err != io.EOF:
			return false, ErrCorrupt
		}
		switch at := d.source.at; {
		case at < len(*payload):
			*payload = (*payload)[at:]
			return false, nil
		case at == len(*payload), at == len(*payload)+len(tail):
			return true, nil
		}
		return false, ErrCorrupt // the payload ends within a block
	}
}

// grow makes room for more output, up to one byte past the limit.
func (d *Decompressor) grow(limit int) {
	if len(d.out) < cap(d.out) {
		return
	}
	room := min(max(2*cap(d.out), minOutput), limit+1)
	d.out = append(make([]byte, 0, max(room, len(d.out)+1)), d.out...)
}

// A source gives a payload and its tail, byte by byte, so that flate reads none too many.
type source struct {
	payload []byte
	at      int
}

func (s *source) ReadByte() (byte, error) {
	at := s.at
	s.at++
	if at < len(s.payload) {
		return s.payload[at], nil
	}
	if at -= len(s.payload); at < len(tail) {
		return tail[at], nil
	}
	s.at--
	return 0, io.EOF
}

// Read is for stored blocks.
func (s *source) Read(b []byte) (n int, err error) {
	if s.at < len(s.payload) {
		n = copy(b, s.payload[s.at:])
	} else if n = copy(b, tail[s.at-len(s.payload):]); n == 0 && len(b) > 0 {
		return 0, io.EOF
	}
	s.at += n
	return n, nil
}
