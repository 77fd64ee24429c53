package startpoint

import (
	"slices"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/wire"
)

// Ahead compares what a client has received from another node with the rows of a hub.
type Ahead struct {
	hub     *hub.Port
	pos     uint64 // of the client
	seen    []seen
	earlier *wire.Fault // why the client must resume on another node; nil: it need not
}

// seen is an N that a client states.
type seen struct {
	hub.Item
	n uint64
}

// NewAhead returns an Ahead for a resume. at returns the position of the resume for data with a
// delay, and epoch is that of the positions. NewAhead returns nil if the client cannot be ahead of
// the hub: only a hub that follows a log can be behind.
func NewAhead(h *hub.Port, r *wire.Resume, epoch string, at func(delay int) uint64, items []hub.Item) *Ahead {
	if r == nil || !hub.Follows(h) || r.Epoch != h.Epoch() {
		return nil
	}
	pos := at(0)
	if epoch != h.Epoch() || !slices.ContainsFunc(items, func(x hub.Item) bool { return x.Tier.Delay == 0 }) {
		pos = 0
	}
	a := &Ahead{hub: h, pos: pos, earlier: needsEarlier(h, r, epoch, at, items)}
	for _, x := range items {
		if n, ok := r.Seen[x.Channel][x.ID.String()]; ok && x.Tier.Delay == 0 && !x.ID.IsPattern() {
			a.seen = append(a.seen, seen{x, n})
		}
	}
	return a
}

// Await returns a Search that ends when the hub has the rows of the client, or after some seconds.
// It returns nil if there is nothing to wait for. before is the Search that has ended, or nil. If
// it has waited for the rows, Await returns a fault if they are missing because the hub is cut off:
// another node may have them. It also returns a fault if the client needs days that this node does
// not have yet.
func (a *Ahead) Await(found func(), before *Search) (*Search, *wire.Fault) {
	switch {
	case a == nil:
		return nil, nil
	case a.earlier != nil:
		return nil, a.earlier
	case found == nil:
		return nil, nil
	case before.waited():
		return nil, a.fault()
	}
	if w := hub.AwaitRows(a.hub, a.missing, found); w != nil {
		return &Search{wait: w, ahead: true}, nil
	}
	return nil, nil
}

// waited reports whether a Search, or one before it, has waited for rows of the client.
func (x *Search) waited() bool { return x != nil && x.ahead }

func (a *Ahead) fault() *wire.Fault {
	a.hub.Lock()
	defer a.hub.Unlock()
	a.hub.Commit()
	if !hub.IsCutOff(a.hub) || !a.missing() {
		return nil
	}
	return &wire.Fault{
		Reason: wire.Overloaded, Msg: "This server is cut off from the market and lacks messages that you have",
		Hint: "Reconnect and resume: another server may have them", RetryAfter: 1,
	}
}

// missing reports whether rows of the client are not committed. The hub's lock is held.
func (a *Ahead) missing() bool {
	h := a.hub
	if h.Committed() < a.pos {
		return true
	}
	for len(a.seen) > 0 {
		x := a.seen[0]
		in := h.Lookup(x.ID, 0)
		if in != nil && h.LastCommitted(in.Recent(x.Channel)) < x.n {
			return true
		}
		a.seen = a.seen[1:] // it stays so
	}
	return false
}
