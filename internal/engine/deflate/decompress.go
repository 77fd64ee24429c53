package deflate

import (
	"compress/flate"
	"errors"
	"io"
)

// Errors returned by Inflate.
var (
	ErrCorrupt = errors.New("compressed data corrupt")
	ErrTooBig  = errors.New("more than the limit when decompressed")
)

const (
	window = 1 << 15 // maximum distance of a back reference, in bytes

	// maxStreams limits the streams of one payload, each ended by a final block. RFC 7692, section
	// 7.2.1, allows any number, but starting one costs far more than the byte it takes.
	maxStreams = 64

	minOutput = 1 << 10 // first allocation
)

// tail holds the bytes that the sender omits (RFC 7692, section 7.2.2), followed by an empty final
// block, so that the reader ends cleanly.
const tail = "\x00\x00\xff\xff\x01\x00\x00\xff\xff"

// A Decompressor decompresses payloads. It uses about 45 KiB and a buffer for the largest payload,
// which the limit of Inflate bounds. The zero value is ready to use. A Decompressor is not safe for
// concurrent use.
type Decompressor struct {
	source source
	reader io.ReadCloser
	out    []byte
}

// Inflate decompresses a payload of up to limit bytes. It stops at the first byte beyond the limit.
// The result is valid until the next call. Inflate returns ErrCorrupt or ErrTooBig.
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

// stream decompresses one deflate stream of payload, up to its final block.
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

// grow extends the buffer, up to one byte beyond the limit.
func (d *Decompressor) grow(limit int) {
	if len(d.out) < cap(d.out) {
		return
	}
	size := min(max(2*cap(d.out), minOutput), limit+1)
	d.out = append(make([]byte, 0, max(size, len(d.out)+1)), d.out...)
}

// A source returns a payload and its tail, byte by byte, so that flate does not read too far.
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

// Read implements io.Reader, for stored blocks.
func (s *source) Read(b []byte) (n int, err error) {
	if s.at < len(s.payload) {
		n = copy(b, s.payload[s.at:])
	} else if n = copy(b, tail[s.at-len(s.payload):]); n == 0 && len(b) > 0 {
		return 0, io.EOF
	}
	s.at += n
	return n, nil
}
