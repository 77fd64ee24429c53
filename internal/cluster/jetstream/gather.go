package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// gatherTime is the longest time in which Gather takes answers.
const gatherTime = 10 * time.Second

// errNobody means that no node listens to a subject.
var errNobody = errors.New("no other node listens for this request")

// asking sends a message to a subject, and returns a subscription for the answers.
func (s *Session) asking(subject string, data []byte) (*nats.Subscription, error) {
	inbox := s.conn.NewInbox()
	sub, err := s.conn.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("ask another node: %w", err)
	}
	if err := s.conn.PublishRequest(s.cfg.subject(subject), inbox, data); err != nil {
		return nil, errors.Join(fmt.Errorf("ask another node: %w", err), sub.Unsubscribe())
	}
	return sub, nil
}

// AskEach sends a message to the nodes that listen to a subject, and calls f with each part of the
// answer of the first that answers, until the last one. The error is that of f, or says that no
// node answers in time.
func (s *Session) AskEach(ctx context.Context, subject string, data []byte, f func(part []byte) error) error {
	sub, err := s.asking(subject, data)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }() // the session may have ended
	for node, parts := "", 0; ; parts++ {
		m, err := sub.NextMsgWithContext(ctx)
		if err == nil && m.Header.Get("Status") == "503" {
			err = errNobody
		}
		if err != nil {
			return fmt.Errorf("ask another node: %w", err)
		}
		switch from := m.Header.Get(nodeHeader); {
		case parts == 0:
			node = from
		case from != node:
			continue // another node answers too
		}
		if err := f(m.Data); err != nil || m.Header.Get(moreHeader) == "" {
			return err
		}
	}
}

// Gather sends a message to all nodes that listen to a subject, and calls f with each answer, until
// it returns false. It waits up to first for the first answer, and up to others for each further
// one, but not longer than gatherTime in all. It is no error if no node answers.
func (s *Session) Gather(ctx context.Context, subject string, data []byte, first, others time.Duration, f func(answer []byte) bool) error {
	sub, err := s.asking(subject, data)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }() // the session may have ended
	began := time.Now()
	for wait := first; ; wait = others {
		if ctx.Err() != nil || time.Since(began) > gatherTime {
			return ctx.Err()
		}
		m, err := sub.NextMsg(wait)
		switch {
		case errors.Is(err, nats.ErrTimeout), errors.Is(err, nats.ErrNoResponders), err == nil && m.Header.Get("Status") == "503":
			return ctx.Err()
		case err != nil:
			return fmt.Errorf("ask the other nodes: %w", err)
		}
		if !f(m.Data) {
			return ctx.Err()
		}
	}
}

// ReadFirst returns the oldest message of the stream; nil if it has none.
func (s *Session) ReadFirst(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	first, last, err := s.bounds(ctx)
	if err != nil || last == 0 || first > last {
		return nil, err
	}
	m, err := s.stream.GetMsg(ctx, first)
	if err != nil {
		return nil, fmt.Errorf("read the oldest message: %w", err)
	}
	return m.Data, nil
}
