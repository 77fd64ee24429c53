package asyncapitest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"slices"
	"sync"
)

// Watch returns conn, the connection of a client after its WebSocket handshake. It checks the text
// messages of both directions, those of batches too, and the close frame of the server. It calls
// report once, when the client closes the connection. Binary and compressed messages are not
// checked.
func Watch(conn io.ReadWriteCloser, report func(error)) io.ReadWriteCloser {
	w := &watched{ReadWriteCloser: conn, report: report}
	w.in = splitter{text: w.checks.Received, end: w.checks.Closed}
	w.out = splitter{text: w.checks.Sent, end: func(uint16, string) {}}
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

// splitter splits the bytes of one direction into messages. One goroutine uses it at a time.
type splitter struct {
	text func(message []byte)
	end  func(code uint16, reason string)

	pending []byte // an incomplete frame
	message []byte // the fragments of a text message
	skip    bool   // the fragments of another message
}

// add takes bytes of the connection.
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

// frame takes a frame.
func (s *splitter) frame(first byte, payload []byte) {
	const final, compressed, continuation, text, closing = 0x80, 0x40, 0, 1, 8
	switch opcode := first & 0x0f; {
	case opcode == closing && len(payload) >= 2:
		s.end(binary.BigEndian.Uint16(payload), string(payload[2:]))
		return
	case opcode >= closing:
		return
	case opcode != continuation:
		s.message, s.skip = s.message[:0], opcode != text || first&compressed != 0
	}
	if s.skip {
		return
	}
	if s.message = append(s.message, payload...); first&final != 0 {
		var batch []json.RawMessage
		if !bytes.HasPrefix(s.message, []byte("[")) || json.Unmarshal(s.message, &batch) != nil {
			batch = append(batch[:0], s.message)
		}
		for _, m := range batch {
			s.text(m)
		}
		s.message = s.message[:0]
	}
}

// splitFrame returns the first byte of the first frame, its payload without a mask, and its size.
// The size is 0 if the frame is not complete.
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
