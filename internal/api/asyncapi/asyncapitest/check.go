package asyncapitest

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
)

// CheckServer checks a message that the gateway sent, as JSON, against the document that it serves.
func CheckServer(message []byte) error {
	d, err := served()
	if err != nil {
		return err
	}
	return d.CheckServer(message)
}

// CheckClient checks a message that a client sends, as JSON.
func CheckClient(message []byte) error {
	d, err := served()
	if err != nil {
		return err
	}
	return d.CheckClient(message)
}

// Check checks a message against a component of the document.
func Check(component string, message []byte) error {
	d, err := served()
	if err != nil {
		return err
	}
	return d.Check(component, message)
}

// CheckClose checks the code and reason of a close frame of the server.
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

// CheckReceived checks a message that a test received from the gateway. Of the messages of a load
// test it checks a sample.
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

// Sent fails the test if the document does not allow a message of the client.
func Sent(t testing.TB, message []byte) {
	t.Helper()
	if err := CheckClient(message); err != nil {
		t.Errorf("the AsyncAPI document does not allow this message of a client: %v\n%s", err, message)
	}
}

// sequence returns the N of a message with market data, 0 for others.
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

// Conversation checks the messages of one connection. Those of the client may be wrong, if the
// server refuses them. The zero Conversation is ready to use.
type Conversation struct {
	mu      sync.Mutex
	wrong   []error // messages of the client that the document does not allow
	refused int     // answers that refuse something
	failed  []error // messages of the server
	ended   bool
	left    uint16 // the code of the client's close frame, 0: none
}

// Sent takes a message of the client, as JSON or anything else.
func (c *Conversation) Sent(message []byte) {
	err := CheckClient(message)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && len(message) < 4<<10 {
		c.wrong = append(c.wrong, fmt.Errorf("%s\n\t%w", message, err))
	}
}

// Received takes a message of the server, as JSON.
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

// noCloseFrame is the code of a connection that ended without a close frame.
const noCloseFrame = 1006

// Leave takes the code of the client's close frame, which the server answers with the same code.
func (c *Conversation) Leave(code uint16) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = code
}

// Closed takes the close frame of the server. Messages before it may have no answer. It ignores the
// end of a connection without a close frame.
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

// End says that the connection has ended. Messages before it may have no answer.
func (c *Conversation) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
}

// Err returns the violations so far: messages of the server that the document does not describe,
// and messages of the client that the document does not allow and the server has not refused.
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
