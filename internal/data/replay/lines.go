package replay

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// Error reports what is wrong with a recording, and where.
type Error struct {
	File   string
	Line   int   // of a text file, from 1; 0: not a text file
	Offset int64 // in bytes from the start of the data, after decompression
	Rest   int64 // bytes from there on, which were not played; 0: unknown, as in a compressed file
	Err    error
}

func (e *Error) Error() string {
	line, rest := "", ""
	if e.Line > 0 {
		line = fmt.Sprintf("line %d, ", e.Line)
	}
	if e.Rest > 0 {
		rest = fmt.Sprintf(" (the rest, %d bytes, is not played)", e.Rest)
	}
	return fmt.Sprintf("replay %s: %soffset %d: %v%s", e.File, line, e.Offset, e.Err, rest)
}

// Final returns true: the recording is damaged, and playing it again will fail again.
func (e *Error) Final() bool { return true }

// Unwrap returns the underlying error.
func (e *Error) Unwrap() error { return e.Err }

// maxLine is the maximum length of a line: sixty times the longest line in known recordings.
const maxLine = 4 << 20

var errLineTooLong = errors.New("line longer than 4 MiB")

// lines reads a recording line by line and tracks the position.
type lines struct {
	buf    *bufio.Reader
	long   []byte // a line that exceeds buf
	number int    // of the line that next returned last, from 1
	start  int64  // of that line
	end    int64  // of the data read so far
}

func newLines(in *input) *lines {
	return &lines{buf: bufio.NewReaderSize(in, 64<<10)}
}

// next returns the next line without its line feed, valid until the next call. It returns io.EOF
// after the last line. If a compressed file is truncated, its last, incomplete line is not
// returned.
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
			return nil, err
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

// fault returns an error at an offset in the line that next returned last.
func (l *lines) fault(path string, at int, err error) *Error {
	return &Error{File: path, Line: max(l.number, 1), Offset: l.start + int64(at), Err: err}
}
