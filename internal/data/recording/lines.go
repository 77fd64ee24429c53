package recording

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxLine is the maximum length of a line: more than a book of 65,536 levels per side or the
// definitions of 50,000 instruments need.
const maxLine = 32 << 20

// maxWindow limits the memory for reading a Zstandard file. The Writer uses windows of 8 MiB.
const maxWindow = 64 << 20

var (
	errForeign = errors.New("this is not a recording of rueda record")
	errLong    = errors.New("the line is longer than 32 MiB")
	errNoTime  = errors.New("the line does not begin with a receive time in Unix nanoseconds and a space")
)

// Error is an error in a recording, with its position.
type Error struct {
	File   string
	Line   int   // from 1
	Offset int64 // of the line, in bytes of the decompressed text
	Err    error
}

func (e *Error) Error() string {
	return fmt.Sprintf("recording %s: line %d, offset %d: %v", e.File, e.Line, e.Offset, e.Err)
}

// Unwrap returns the underlying error.
func (e *Error) Unwrap() error { return e.Err }

// Final returns true: the recording is damaged, and playing it again will fail again.
func (e *Error) Final() bool { return true }

// Line is a line of a recording after the first.
type Line struct {
	Number int    // from 2
	Offset int64  // in bytes of the decompressed text
	At     int64  // receive time, Unix ns
	Body   []byte // a JSON object; valid until the next line is read
}

// IsNote reports whether the line is a note of the recorder.
func (l *Line) IsNote() bool { return isNote(l.Body) }

func isNote(body []byte) bool { return bytes.HasPrefix(body, []byte(`{"recording":`)) }

// Reader reads a recording.
type Reader struct {
	name   string
	close  func() error
	packed bool
	buf    *bufio.Reader
	long   []byte // a line that exceeds buf
	meta   *Meta
	line   Line
	end    int64 // of the data read so far
	torn   error

	size int64        // of the file
	read atomic.Int64 // bytes of the file read
}

// source counts the bytes read from a file.
type source struct {
	io.Reader
	n *atomic.Int64
}

func (s source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.n.Add(int64(n))
	return n, err
}

// IsForeign reports whether an error of Open means that the file can be read but is not a
// recording.
func IsForeign(err error) bool { return errors.Is(err, errForeign) }

// Open opens a recording, compressed or not. It returns an error that describes the problem if the
// file is not a recording.
func Open(name string) (*Reader, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open recording: %w", err)
	}
	r, err := NewReader(name, file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if info, err := file.Stat(); err == nil {
		r.size = info.Size()
	}
	unpacked := r.close
	r.close = func() error { return errors.Join(unpacked(), file.Close()) }
	return r, nil
}

// NewReader returns a Reader that reads a recording from in. name is used in errors. The caller
// must close the Reader, and in itself.
func NewReader(name string, in io.Reader) (*Reader, error) {
	r := &Reader{name: name, close: func() error { return nil }}
	buf := bufio.NewReaderSize(source{in, &r.read}, 256<<10)
	// A shorter file is not compressed; the next check reports it.
	begin, _ := buf.Peek(4)
	switch {
	case bytes.HasPrefix(begin, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(buf)
		if err != nil {
			return nil, r.fail(fmt.Errorf("unpack: %w", err))
		}
		r.packed, r.buf = true, bufio.NewReaderSize(z, 256<<10)
	case bytes.Equal(begin, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(buf, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, r.fail(fmt.Errorf("unpack: %w", err))
		}
		r.close = func() error { z.Close(); return nil }
		r.packed, r.buf = true, bufio.NewReaderSize(z, 256<<10)
	default:
		r.buf = buf
	}
	if err := r.begin(); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// begin reads the first line. It reads no more of a foreign file than needed to recognise it.
func (r *Reader) begin() error {
	switch begin, err := r.buf.Peek(len(magic)); {
	case len(begin) == 0 && errors.Is(err, io.EOF):
		return r.fail(errors.New("the file is empty"))
	case len(begin) == 0 && err != nil:
		return r.fail(fmt.Errorf("unpack: %w", err))
	case !Is(begin):
		return r.fail(errForeign)
	}
	text, err := r.text()
	if errors.Is(err, io.EOF) {
		return r.fail(errors.New("it ends within its first line and has no messages"))
	}
	if err != nil {
		return err
	}
	if r.meta, err = parseMeta(text); err != nil {
		return r.fail(err)
	}
	return nil
}

// Meta returns the first line.
func (r *Reader) Meta() *Meta { return r.meta }

// Progress returns how many bytes of the file were read, and its size, 0 if there is no file. It
// may be called from any goroutine.
func (r *Reader) Progress() (read, size int64) { return r.read.Load(), r.size }

// Close closes the Reader.
func (r *Reader) Close() error { return r.close() }

// Torn returns, after io.EOF, an error if the file ends in the middle of a line or of a compressed
// block, or nil.
func (r *Reader) Torn() error { return r.torn }

// End returns how many bytes of the decompressed text were read as complete lines.
func (r *Reader) End() int64 { return r.end }

// Next returns the next line, or io.EOF after the last one. Other errors are *Error.
func (r *Reader) Next() (*Line, error) {
	text, err := r.text()
	if err != nil {
		return nil, err
	}
	at, body, ok := splitLine(text)
	if !ok {
		return nil, r.fail(errNoTime)
	}
	r.line.At, r.line.Body = at, body
	return &r.line, nil
}

// text returns the next line without its line feed.
func (r *Reader) text() ([]byte, error) {
	r.line.Number++
	r.line.Offset = r.end
	r.long = r.long[:0]
	n := int64(0)
	for {
		part, err := r.buf.ReadSlice('\n')
		n += int64(len(part))
		switch {
		case n > maxLine:
			return nil, r.fail(errLong)
		case err == nil && len(r.long) == 0:
			r.end += n
			return trimEnd(part), nil
		case err == nil:
			r.long = append(r.long, part...)
			r.end += n
			return trimEnd(r.long), nil
		case errors.Is(err, bufio.ErrBufferFull):
			r.long = append(r.long, part...)
		default:
			return nil, r.ending(n, err)
		}
	}
}

// ending handles the end of a file, n bytes after the end of its last line.
func (r *Reader) ending(n int64, err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF) && r.packed:
		r.torn = fmt.Errorf("it ends within a compressed block, %d bytes after line %d: the writer did not close it", n, r.line.Number-1)
		return io.EOF
	case !errors.Is(err, io.EOF):
		return r.fail(fmt.Errorf("read: %w", err))
	case n > 0:
		r.torn = fmt.Errorf("it ends within a line, %d bytes after line %d", n, r.line.Number-1)
	}
	return io.EOF
}

func (r *Reader) fail(err error) error {
	return &Error{File: r.name, Line: max(r.line.Number, 1), Offset: r.line.Offset, Err: err}
}

func trimEnd(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte{'\n'}), []byte{'\r'})
}

// splitLine splits the receive time off a line.
func splitLine(text []byte) (at int64, body []byte, ok bool) {
	i := 0
	for ; i < len(text) && text[i]-'0' <= 9; i++ {
		if at > (math.MaxInt64-9)/10 {
			return 0, nil, false
		}
		at = at*10 + int64(text[i]-'0')
	}
	if i == 0 || i+1 >= len(text) || text[i] != ' ' || text[i+1] != '{' {
		return 0, nil, false
	}
	return at, text[i+1:], true
}
