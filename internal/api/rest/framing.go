package rest

import (
	"bytes"
	"strconv"
)

// framing follows the bytes of a connection to find and check the header sections of its requests.
// It does not follow a chunked body, so that a request with one must be the last of its connection.
// It stores only the beginning of one line. The zero framing expects the start of a request.
type framing struct {
	state    int32
	body     uint64 // bytes of the body still to come
	started  bool   // the request line was read
	length   bool   // the section has a Content-Length
	transfer bool   // the section has a Transfer-Encoding
	next     uint64 // value of the Content-Length
	line     [64]byte
	filled   int
	long     bool // the line is longer than the array
}

// feed handles the next bytes of the connection, and returns its state after them.
func (f *framing) feed(p []byte) int32 {
	for len(p) > 0 && f.state == framingSound {
		if f.body > 0 {
			n := min(f.body, uint64(len(p)))
			f.body -= n
			p = p[n:]
			continue
		}
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			f.keep(p)
			break
		}
		f.keep(p[:end])
		p = p[end+1:]
		f.endLine()
		f.filled, f.long = 0, false
	}
	return f.state
}

func (f *framing) keep(p []byte) {
	n := copy(f.line[f.filled:], p)
	f.filled += n
	f.long = f.long || n < len(p)
}

func (f *framing) endLine() {
	line := bytes.TrimSuffix(f.line[:f.filled], []byte("\r"))
	switch {
	case len(line) == 0 && !f.long:
		if f.started { // empty lines before a request line are ignored
			f.endSection()
		}
	case !f.started:
		f.started = true
	case line[0] == ' ' || line[0] == '\t':
		f.state = framingBad // a folded line
	default:
		f.field(line)
	}
}

func (f *framing) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	switch {
	case bytes.EqualFold(name, []byte("Content-Length")):
		n, err := strconv.ParseUint(string(bytes.Trim(value, " \t")), 10, 63)
		if f.length || f.long || err != nil {
			f.state = framingBad
		}
		f.length, f.next = true, n
	case bytes.EqualFold(name, []byte("Transfer-Encoding")):
		f.transfer = true
	}
}

func (f *framing) endSection() {
	switch {
	case f.length && f.transfer:
		f.state = framingBad
	case f.transfer:
		f.state = framingLast
	}
	*f = framing{state: f.state, body: f.next}
}
