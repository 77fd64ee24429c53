package asyncapitest

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
)

// CheckServer checks a JSON message from the gateway against the AsyncAPI document. The error says
// what the document does not describe.
func CheckServer(message []byte) error {
	d, err := served()
	if err != nil {
		return err
	}
	return d.CheckServer(message)
}

// CheckClient checks a JSON message from a client against the AsyncAPI document. Members with the
// value null count as absent.
func CheckClient(message []byte) error {
	d, err := served()
	if err != nil {
		return err
	}
	return d.CheckClient(message)
}

// Check checks a JSON message against the schema with the name component.
func Check(component string, message []byte) error {
	d, err := served()
	if err != nil {
		return err
	}
	return d.Check(component, message)
}

// CheckClose returns an error if the document does not list this code and reason of a close frame
// from the server.
func CheckClose(code uint16, reason string) error {
	d, err := served()
	if err != nil {
		return err
	}
	return d.CheckClose(code, reason)
}

// Of the messages with market data whose N is above sampleFrom, one in sampleStep is checked,
// because load tests receive many similar messages.
const (
	sampleFrom = 256
	sampleStep = 64
)

// CheckReceived checks a JSON message that a test received from the gateway. It skips most messages
// with a high N, because load tests receive many similar messages.
func CheckReceived(message []byte) error {
	if n := sequence(message); n > sampleFrom && n%sampleStep != 0 {
		return nil
	}
	if err := CheckServer(message); err != nil {
		return fmt.Errorf("the AsyncAPI document does not have this message: %w\n%s", err, message)
	}
	return nil
}

// Received fails the test if CheckReceived returns an error.
func Received(t testing.TB, message []byte) {
	t.Helper()
	if err := CheckReceived(message); err != nil {
		t.Error(err)
	}
}

// Sent fails the test if CheckClient returns an error.
func Sent(t testing.TB, message []byte) {
	t.Helper()
	if err := CheckClient(message); err != nil {
		t.Errorf("the AsyncAPI document does not allow this message of a client: %v\n%s", err, message)
	}
}

// sequence returns the N of a message with market data, or 0 if the message has none.
func sequence(message []byte) (n uint64) {
	_, after, _ := bytes.Cut(message, []byte(`,"N":`))
	for _, c := range after {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + uint64(c-'0')
	}
	return n
}

// Conversation checks the messages of one connection. The client may send invalid messages if the
// server refuses them. The zero Conversation is ready to use.
type Conversation struct {
	mu      sync.Mutex
	wrong   []error // messages of the client that the document does not allow
	refused int     // answers that refuse something
	failed  []error // messages of the server
	ended   bool
	left    uint16 // the code of the client's close frame, 0: none
}

// Sent records a message from the client, which need not be JSON. It does not count invalid
// messages of 4 KiB or more.
func (c *Conversation) Sent(message []byte) {
	err := CheckClient(message)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && len(message) < 4<<10 {
		c.wrong = append(c.wrong, fmt.Errorf("%s\n\t%w", message, err))
	}
}

// Received records a JSON message from the server.
func (c *Conversation) Received(message []byte) {
	err := CheckReceived(message)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.failed = append(c.failed, err)
	}
	if bytes.HasPrefix(message, []byte(`{"type":"Error"`)) || bytes.Contains(message, []byte(`,"rejected":[`)) {
		c.refused++
	}
}

// noCloseFrame is the close code that stands for a connection without a close frame.
const noCloseFrame = 1006

// Leave records the code of the client's close frame. The server answers with the same code.
func (c *Conversation) Leave(code uint16) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = code
}

// Closed records the close frame of the server. After it, Err accepts client messages without an
// answer. A connection that ended without a close frame is ignored.
func (c *Conversation) Closed(code uint16, reason string) {
	if code == noCloseFrame {
		return
	}
	err := CheckClose(code, reason)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if err != nil && (code != c.left || reason != "") {
		c.failed = append(c.failed, err)
	}
}

// End records that the connection has ended. After it, Err accepts client messages without an
// answer.
func (c *Conversation) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
}

// Err returns all violations so far: server messages that the document does not describe, and
// invalid client messages that the server has not refused.
func (c *Conversation) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	failed := append([]error(nil), c.failed...)
	if !c.ended && len(c.wrong) > c.refused {
		failed = append(failed, fmt.Errorf("the document does not allow %d messages of the client, and the server refused %d", len(c.wrong), c.refused))
		failed = append(failed, c.wrong[:min(len(c.wrong), 3)]...)
	}
	return errors.Join(failed...)
}
