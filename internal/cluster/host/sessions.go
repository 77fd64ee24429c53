package host

import (
	"math/rand/v2"
	"time"

	"github.com/ruedahq/rueda/internal/cluster/jetstream"
	"github.com/ruedahq/rueda/internal/engine/peers"
	"github.com/ruedahq/rueda/internal/engine/session"
)

// sharing exchanges the sessions of users with the other nodes. A nil sharing does nothing.
type sharing struct {
	registry *session.Registry
	changed  <-chan struct{}
	came     <-chan *jetstream.Arrival // of the present session with NATS; nil: none
}

// shareEvery is the time between two messages to the other nodes, or less.
const shareEvery = 200 * time.Millisecond

// newSharing returns nil for a node without clients.
func newSharing(node string, r *session.Registry) *sharing {
	if r == nil {
		return nil
	}
	return &sharing{registry: r, changed: r.Share(peers.Config{Node: node, Start: rand.Uint64(), Wall: time.Now().UnixNano()})}
}

// join begins to listen to the other nodes.
func (x *sharing) join(s *jetstream.Session) (err error) {
	if x != nil {
		x.came, err = s.Notes(subjectSessions)
	}
	return err
}

// leave ends what join began.
func (x *sharing) leave() {
	if x != nil {
		x.came = nil
	}
}

// messages returns the channel of messages of other nodes; nil: there is no session with NATS.
func (x *sharing) messages() <-chan *jetstream.Arrival {
	if x == nil {
		return nil
	}
	return x.came
}

// news returns a channel with an element when there is a change to send to the other nodes.
func (x *sharing) news() <-chan struct{} {
	if x == nil {
		return nil
	}
	return x.changed
}

// share sends the changes of sessions to the other nodes. Without a session with NATS they are
// dropped: the other nodes ask for them later.
func (h *Host) share() {
	if h.sharing == nil {
		return
	}
	for _, m := range h.sharing.registry.Exchange(time.Since(h.began), time.Now().UnixNano()) {
		if h.session != nil {
			h.failed("send the sessions", h.session.Send(subjectSessions, m))
		}
	}
}
