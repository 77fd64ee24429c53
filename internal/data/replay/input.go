package replay

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"
)

// input is an open file that is decompressed as it is read. Decoders read from a window of its
// data.
type input struct {
	path   string
	file   io.Closer
	reader io.Reader // decompressed
	zstd   *zstd.Decoder
	packed string // gzip, zstd; "": not compressed
	buf    []byte
	from   int   // start of the window in buf
	to     int   // end of the window in buf
	base   int64 // offset of buf[from] in the data
	err    error // of the reader
}

// Sizes of the window. It grows for a record that does not fit; the longest known one is the header
// of a DBN file.
const (
	minWindow = 256 << 10
	maxWindow = 65 << 20
)

// maxZstdWindow is the maximum memory that a zstd file may require.
const maxZstdWindow = 128 << 20

var errRecordTooLong = errors.New("a record is longer than 65 MiB")

// countingReader counts the bytes that are read.
type countingReader struct {
	file io.Reader
	read *atomic.Int64
}

func (c countingReader) Read(p []byte) (int, error) {
	n, err := c.file.Read(p)
	if c.read != nil {
		c.read.Add(int64(n))
	}
	return n, err
}

// openInput opens a file, compressed or not. If read is not nil, it counts the bytes read from the
// file.
func openInput(path string, read *atomic.Int64) (*input, error) {
	// A named pipe could stall here, and its data could be read only once.
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", path)
	}
	if err != nil {
		return nil, fmt.Errorf("open recording: %w", err)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open recording: %w", err)
	}
	return newInput(path, file, read)
}

// newInput returns an input that reads from a file, and closes it.
func newInput(path string, file io.ReadCloser, read *atomic.Int64) (*input, error) {
	in := &input{path: path, file: file}
	raw := bufio.NewReaderSize(countingReader{file, read}, 32<<10)
	in.reader = raw
	// A shorter file is not compressed; its format is checked later.
	magic, err := raw.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(fmt.Errorf("read recording %s: %w", path, err), file.Close())
	}
	switch {
	case len(magic) >= 2 && magic[0] == 0x1f && magic[1] == 0x8b:
		in.packed = "gzip"
		in.reader, err = gzip.NewReader(raw)
	case len(magic) == 4 && isZstd(magic):
		in.packed = "zstd"
		in.zstd, err = zstd.NewReader(raw, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow))
		in.reader = in.zstd
	default:
		err = nil
	}
	if err != nil {
		if errors.Is(err, io.EOF) { // within the header of the compressed file
			err = io.ErrUnexpectedEOF
		}
		return nil, errors.Join(in.fault(in.readError(err)), file.Close())
	}
	return in, nil
}

// isZstd reports whether m is the magic number of a zstd frame or of a skippable frame.
func isZstd(m []byte) bool {
	return m[0] == 0x28 && m[1] == 0xb5 && m[2] == 0x2f && m[3] == 0xfd ||
		m[0]&0xf0 == 0x50 && m[1] == 0x2a && m[2] == 0x4d && m[3] == 0x18
}

func (in *input) close() error {
	if in.zstd != nil {
		in.zstd.Close()
	}
	return in.file.Close()
}

// data returns the window.
func (in *input) data() []byte { return in.buf[in.from:in.to] }

// skip moves the start of the window.
func (in *input) skip(n int) {
	in.from += n
	in.base += int64(n)
}

// more extends the window. It returns io.EOF at the end of the file.
func (in *input) more() error {
	if in.err != nil {
		return in.err
	}
	if in.from > 0 {
		copy(in.buf, in.buf[in.from:in.to])
		in.from, in.to = 0, in.to-in.from
	}
	if in.to == len(in.buf) {
		if len(in.buf) >= maxWindow {
			return errRecordTooLong
		}
		grown := make([]byte, min(maxWindow, max(minWindow, 2*len(in.buf))))
		copy(grown, in.buf[:in.to])
		in.buf = grown
	}
	for range 100 {
		n, err := in.reader.Read(in.buf[in.to:])
		in.to += n
		in.err = in.readError(err)
		if n > 0 {
			return nil
		}
		if err != nil {
			return in.err
		}
	}
	return io.ErrNoProgress
}

// peek extends the window to n bytes, or to the end of the file, and returns it. whole reports
// whether it is the complete file.
func (in *input) peek(n int) (data []byte, whole bool, err error) {
	for len(in.data()) < n {
		if err := in.more(); errors.Is(err, io.EOF) {
			return in.data(), true, nil
		} else if err != nil {
			return in.data(), false, err
		}
	}
	return in.data(), false, nil
}

// Read implements io.Reader. It returns the window first, and then the rest.
func (in *input) Read(p []byte) (int, error) {
	if in.from < in.to {
		n := copy(p, in.data())
		in.skip(n)
		return n, nil
	}
	if in.err != nil {
		return 0, in.err
	}
	n, err := in.reader.Read(p)
	in.base += int64(n)
	return n, in.readError(err)
}

// readError describes an error in a compressed file.
func (in *input) readError(err error) error {
	switch {
	case err == nil, in.packed == "", errors.Is(err, io.EOF):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the %s file is cut off: %w", in.packed, io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("the %s file is damaged: %w", in.packed, err)
}

// fault returns an error at the start of the window.
func (in *input) fault(err error) *Error {
	return &Error{File: in.path, Offset: in.base, Err: err}
}

// onceReader is an input that can be read only once, such as a pipe. It holds what Open has read.
type onceReader struct {
	source io.Reader
	held   []byte
	at     int // next byte of held
	opened int // how often
}

// open begins a read. The first one is for Open, the second one for the only pass.
func (s *onceReader) open() error {
	s.opened++
	if s.at = 0; s.opened > 2 {
		return errors.New("this input can be played only once")
	}
	return nil
}

// Read implements io.Reader.
func (s *onceReader) Read(p []byte) (int, error) {
	if s.at < len(s.held) {
		n := copy(p, s.held[s.at:])
		s.at += n
		return n, nil
	}
	n, err := s.source.Read(p)
	if s.opened == 1 {
		s.held = append(s.held, p[:n]...)
		s.at = len(s.held)
	} else {
		s.held, s.at = nil, 0
	}
	return n, err
}

// Close does nothing: the caller of Open closes its reader.
func (s *onceReader) Close() error { return nil }
