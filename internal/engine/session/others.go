package session

import (
	"time"

	"github.com/ruedahq/rueda/internal/engine/peers"
)

// others has the sessions on the other nodes of a cluster. The registry's mutex guards it. The
// methods of a nil others do nothing.
type others struct {
	table   *peers.Table[*entry]
	changed chan struct{} // has an element when Exchange has something to send
}

// Share makes the registry one of several in a cluster. A session name then belongs to its newest
// session on any node, and the sessions on all nodes count for the limit of a user. Call it once,
// before the first session. When changed has an element, and at least four times in a second, the
// caller calls Exchange and sends what it returns to the other nodes.
func (r *Registry) Share(cfg peers.Config) (changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.others = &others{table: peers.New[*entry](cfg), changed: make(chan struct{}, 1)}
	return r.others.changed
}

// Exchange returns messages for the other nodes, each of which passes them to Heard. now is the
// time since the process started, and wall that of this machine's clock in Unix ns.
func (r *Registry) Exchange(now time.Duration, wall int64) (send [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	send, closed := r.others.table.Tick(now, wall)
	r.closeAll(closed)
	return send
}

// Heard handles a message of another node. It may close sessions: with replaced if another node has
// a newer session of the same name, and with connection_limit those that came last, if nodes have
// admitted sessions at the same time.
func (r *Registry) Heard(now time.Duration, message []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closeAll(r.others.table.Heard(now, message))
	r.others.notify()
}

// closeAll removes sessions and closes them. The registry's mutex is held.
func (r *Registry) closeAll(list []peers.Close[*entry]) {
	for _, c := range list {
		r.remove(c.Handle)
		kind := Exceeds
		if c.Replaced {
			kind = Replaced
		}
		c.Handle.post(Event{Kind: kind})
	}
}

// count returns the number of sessions of a user on other nodes, without those that a new session
// with this name replaces.
func (o *others) count(user, name string) int {
	if o == nil {
		return 0
	}
	return o.table.Elsewhere(user, name)
}

// put notes an admitted session, or its new name.
func (o *others) put(p *entry, limit int) {
	if o != nil {
		o.table.Put(p.user(), p.sessionName(), limit, p)
		o.notify()
	}
}

// remove forgets a session.
func (o *others) remove(p *entry) {
	if o != nil {
		o.table.Remove(p.user(), p)
		o.notify()
	}
}

// notify wakes the goroutine that called Share, which then calls Exchange, if entries of the table
// have changed.
func (o *others) notify() {
	if !o.table.Changed() {
		return
	}
	select {
	case o.changed <- struct{}{}:
	default:
	}
}
