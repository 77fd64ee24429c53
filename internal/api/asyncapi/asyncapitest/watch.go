package asyncapitest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"slices"
	"sync"

	"github.com/ruedahq/rueda/internal/base/frame"
	"github.com/ruedahq/rueda/internal/base/msgpack"
	"github.com/ruedahq/rueda/internal/engine/deflate"
)

// Watch wraps the connection of a client after its WebSocket handshake. The returned connection
// checks the messages of both directions and the close frame of the server. Messages may be JSON or
// MessagePack, compressed or in batches. The first Close calls report with the violations, or nil.
func Watch(conn io.ReadWriteCloser, report func(error)) io.ReadWriteCloser {
	w := &watched{ReadWriteCloser: conn, report: report}
	w.in = splitter{take: w.checks.Received, end: w.checks.Closed}
	w.out = splitter{take: w.checks.Sent, end: func(code uint16, _ string) { w.checks.Leave(code) }}
	return w
}

type watched struct {
	io.ReadWriteCloser
	checks  Conversation
	in, out splitter
	once    sync.Once
	report  func(error)
}

// Read implements io.Reader.
func (w *watched) Read(b []byte) (int, error) {
	n, err := w.ReadWriteCloser.Read(b)
	w.in.add(b[:n])
	return n, err
}

// Write implements io.Writer.
func (w *watched) Write(b []byte) (int, error) {
	n, err := w.ReadWriteCloser.Write(b)
	w.out.add(b[:n])
	return n, err
}

// Close implements io.Closer.
func (w *watched) Close() error {
	err := w.ReadWriteCloser.Close()
	w.once.Do(func() { w.report(w.checks.Err()) })
	return err
}

// maxMessage bounds the size of a message after decompression.
const maxMessage = 16 << 20

// splitter splits the bytes of one direction into messages. One goroutine uses it at a time.
type splitter struct {
	take func(message []byte) // one message as JSON, or as it was sent if it has another form
	end  func(code uint16, reason string)

	pending []byte // an incomplete frame
	message []byte // the fragments of a message
	first   byte   // the first byte of its first frame
	inflate deflate.Decompressor
}

// add appends bytes from the connection, and handles all frames that are now complete.
func (s *splitter) add(b []byte) {
	s.pending = append(s.pending, b...)
	rest := s.pending
	for {
		first, payload, size := splitFrame(rest)
		if size == 0 {
			break
		}
		rest = rest[size:]
		s.frame(first, payload)
	}
	s.pending = append(s.pending[:0], rest...)
}

// Opcodes of RFC 6455, and the bit of the last frame of a message.
const (
	continuation  = 0
	binaryMessage = 2
	closing       = 8
	final         = 0x80
)

// frame handles a frame without its mask. It passes on a message when the last fragment is there.
func (s *splitter) frame(first byte, payload []byte) {

	switch opcode := first & 0x0f; {
	case opcode == closing && len(payload) >= 2:
		s.end(binary.BigEndian.Uint16(payload), string(payload[2:]))
		return
	case opcode >= closing:
		return
	case opcode != continuation:
		s.message, s.first = s.message[:0], first
	}
	if s.message = append(s.message, payload...); first&final != 0 {
		EachMessage(s.plain(), s.first&0x0f == binaryMessage, s.take)
		s.message = s.message[:0]
	}
}

// plain returns the collected message after decompression. It returns the message as it was sent if
// the message is not compressed or decompression fails.
func (s *splitter) plain() []byte {
	if s.first&frame.Compressed != 0 {
		if b, err := s.inflate.Inflate(s.message, maxMessage); err == nil {
			return b
		}
	}
	return s.message
}

// EachMessage calls take for each JSON message in the content of a WebSocket message, which may be
// a batch. It converts binary content from MessagePack. Content that cannot be parsed is passed to
// take unchanged.
func EachMessage(content []byte, isBinary bool, take func(message []byte)) {
	if isBinary {
		if text, err := msgpack.AppendJSON(nil, content); err == nil {
			content = text
		}
	}
	var batch []json.RawMessage
	if !bytes.HasPrefix(content, []byte("[")) || json.Unmarshal(content, &batch) != nil {
		batch = []json.RawMessage{content}
	}
	for _, m := range batch {
		take(m)
	}
}

// splitFrame parses the frame at the start of b. It returns the first byte of the frame, the
// payload without its mask, and the size of the whole frame. The size is 0 if b ends inside the
// frame.
func splitFrame(b []byte) (first byte, payload []byte, size int) {
	if len(b) < 2 {
		return 0, nil, 0
	}
	n, head, masked := int(b[1]&0x7f), 2, b[1]&0x80 != 0
	switch {
	case n == 126 && len(b) >= 4:
		n, head = int(binary.BigEndian.Uint16(b[2:])), 4
	case n == 127 && len(b) >= 10:
		n, head = int(binary.BigEndian.Uint64(b[2:])), 10
	case n > 125:
		return 0, nil, 0
	}
	if masked {
		head += 4
	}
	if len(b) < head+n {
		return 0, nil, 0
	}
	payload = b[head : head+n]
	if masked {
		payload = slices.Clone(payload)
		for i := range payload {
			payload[i] ^= b[head-4+i%4]
		}
	}
	return b[0], payload, head + n
}
