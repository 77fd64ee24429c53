package replay

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
)

// Error is what is wrong with a recording, and where.
type Error struct {
	File   string
	Line   int   // from 1
	Offset int64 // in bytes from the beginning of the text, after unpacking
	Err    error
}

func (e *Error) Error() string {
	return fmt.Sprintf("replay %s: line %d, offset %d: %v", e.File, e.Line, e.Offset, e.Err)
}

// Final says that the recording is damaged and stays so: there is no use in playing it again.
func (e *Error) Final() bool { return true }

// Unwrap is what is wrong.
func (e *Error) Unwrap() error { return e.Err }

// maxLine is the longest line: sixty times the longest of the recordings at hand.
const maxLine = 4 << 20

var errLineTooLong = errors.New("line longer than 4 MiB")

// lines reads a recording line by line and knows where it is.
type lines struct {
	file   *os.File
	buf    *bufio.Reader
	long   []byte // a line that does not fit into buf
	packed bool
	number int   // of the line that next gave last, from 1
	start  int64 // of that line
	end    int64 // of what was read
}

// openLines opens a recording, packed or plain.
func openLines(path string) (*lines, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open recording: %w", err)
	}
	l := &lines{file: file, buf: bufio.NewReaderSize(file, 64<<10)}
	// A file of one byte is not packed; what is wrong with it shows later.
	if magic, _ := l.buf.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		unpacked, err := gzip.NewReader(l.buf)
		if err != nil {
			return nil, errors.Join(l.fault(path, 0, readError(err, true)), file.Close())
		}
		l.buf, l.packed = bufio.NewReaderSize(unpacked, 64<<10), true
	}
	return l, nil
}

func (l *lines) close() error { return l.file.Close() }

// next is the next line without its end, valid until the next call; io.EOF
// after the last. A line that the file breaks off in is not given when the
// file is packed, since there an end is an end of the data, not of the text.
func (l *lines) next() ([]byte, error) {
	l.start = l.end
	l.number++
	l.long = l.long[:0]
	for {
		part, err := l.buf.ReadSlice('\n')
		l.end += int64(len(part))
		if len(l.long)+len(part) > maxLine {
			return nil, errLineTooLong
		}
		switch {
		case err == nil && len(l.long) == 0:
			return trimEnd(part), nil
		case err == nil, errors.Is(err, io.EOF) && len(l.long)+len(part) > 0:
			l.long = append(l.long, part...)
			return trimEnd(l.long), nil
		case errors.Is(err, bufio.ErrBufferFull):
			l.long = append(l.long, part...)
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		default:
			l.start = l.end
			return nil, readError(err, l.packed)
		}
	}
}

func trimEnd(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\n' {
		line = line[:n-1]
	}
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line
}

// readError says in words what became of a packed file.
func readError(err error, packed bool) error {
	switch {
	case packed && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)):
		return fmt.Errorf("the gzip file is cut off: %w", io.ErrUnexpectedEOF)
	case packed:
		return fmt.Errorf("the gzip file is damaged: %w", err)
	}
	return err
}

// fault is an error at a place in the line that next gave last.
func (l *lines) fault(path string, at int, err error) *Error {
	return &Error{File: path, Line: max(l.number, 1), Offset: l.start + int64(at), Err: err}
}
