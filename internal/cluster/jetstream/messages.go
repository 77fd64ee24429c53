package jetstream

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Kind says what a message is.
type Kind uint8

// Kinds of messages.
const (
	Nothing Kind = iota // for the connection itself, or of a former consumer
	Rows                // of the stream
	Note                // of another node, on a subject that Listen named
)

// Message is a message to this node.
type Message struct {
	Kind     Kind
	Sequence uint64 // in the stream
	Subject  string // of a Note, without the prefix of the cluster
	Data     []byte
	reply    string
}

// ErrMissed means that the consumer has missed messages, or has received nothing for too long. The
// caller closes the session.
var ErrMissed = errors.New("messages of the stream were missed")

// Arrival is what has arrived, before Parse.
type Arrival = nats.Msg

// Messages returns the channel of what arrives. Parse makes messages of it.
func (s *Session) Messages() <-chan *Arrival { return s.came }

// Listen makes the messages of other nodes on a subject arrive.
func (s *Session) Listen(subject string) error {
	if _, err := s.conn.ChanSubscribe(s.cfg.subject(subject), s.came); err != nil {
		return fmt.Errorf("listen to the other nodes: %w", err)
	}
	return nil
}

// Notes returns a channel of the messages of all nodes, also this one, on a subject. They do not
// wait for rows, and are lost while the channel is full. It is never closed.
func (s *Session) Notes(subject string) (<-chan *Arrival, error) {
	came := make(chan *Arrival, notes)
	if _, err := s.conn.ChanSubscribe(s.cfg.subject(subject), came); err != nil {
		return nil, fmt.Errorf("listen to the other nodes: %w", err)
	}
	return came, nil
}

// Parse returns the content of what has arrived. It answers the flow control of the server. The
// error is ErrMissed, or that of a message that is not one of JetStream.
func (s *Session) Parse(m *Arrival) (Message, error) {
	if subject, ok := strings.CutPrefix(m.Subject, s.cfg.subject("")); ok && m.Sub != s.rows {
		return Message{Kind: Note, Subject: subject, Data: m.Data, reply: m.Reply}, nil
	}
	if m.Sub != s.rows {
		return Message{}, nil // of a former consumer
	}
	s.heard = time.Now()
	if m.Header.Get("Status") == "100" {
		return Message{}, s.control(m)
	}
	meta, err := m.Metadata()
	if err != nil {
		return Message{}, fmt.Errorf("read the stream: %w", err)
	}
	if meta.Sequence.Consumer != s.next {
		return Message{}, fmt.Errorf("message %d of the consumer instead of %d: %w", meta.Sequence.Consumer, s.next, ErrMissed)
	}
	s.next++
	return Message{Kind: Rows, Sequence: meta.Sequence.Stream, Data: m.Data}, nil
}

// control answers a message of flow control, and checks what an idle heartbeat says.
func (s *Session) control(m *nats.Msg) error {
	to := m.Reply
	if to == "" {
		to = m.Header.Get("Nats-Consumer-Stalled")
	}
	if last := m.Header.Get("Nats-Last-Consumer"); last != "" && last != fmt.Sprint(s.next-1) {
		return fmt.Errorf("the consumer is at message %s, not at %d: %w", last, s.next-1, ErrMissed)
	}
	if to == "" {
		return nil
	}
	return s.conn.Publish(to, nil)
}

// Check returns ErrMissed if the consumer has sent nothing for too long. Call it regularly.
func (s *Session) Check() error {
	if s.rows != nil && time.Since(s.heard) > missedAfter {
		return fmt.Errorf("no heartbeat of the stream for %v: %w", missedAfter, ErrMissed)
	}
	return nil
}

// Send sends a message to the nodes that listen to a subject. It is lost for those that are not
// connected.
func (s *Session) Send(subject string, data []byte) error {
	if err := s.conn.Publish(s.cfg.subject(subject), data); err != nil {
		return fmt.Errorf("send to the other nodes: %w", err)
	}
	return nil
}

// Answer answers a Note that was sent by AskEach or Gather. more states that another part of the
// answer follows.
func (s *Session) Answer(m Message, data []byte, more bool) error {
	if m.reply == "" {
		return nil
	}
	answer := nats.NewMsg(m.reply)
	answer.Data = data
	answer.Header.Set(nodeHeader, s.cfg.Node)
	if more {
		answer.Header.Set(moreHeader, "1")
	}
	if err := s.conn.PublishMsg(answer); err != nil {
		return fmt.Errorf("answer another node: %w", err)
	}
	return nil
}

// Headers of answers.
const (
	nodeHeader = "Rueda-Node" // who answers
	moreHeader = "Rueda-More" // another part of the answer follows
)
