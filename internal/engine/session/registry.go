package session

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ruedahq/rueda/wire"
)

// Registry has the authenticated sessions of a gateway by user and family. It counts a user's
// connections, gives a session's name to its newest connection, and posts events. Any goroutine may
// call its methods.
//
// An event may arrive for a token that is still being checked. The session of that token is not in
// the registry yet. The registry keeps the newest events and passes them to a session at its
// admission, so that none is lost.
//
// The zero Registry is empty and ready.
type Registry struct {
	mu       sync.Mutex
	users    map[string]*entry // the newest session of each
	families map[string]*entry
	size     int                  // sessions
	extended map[string]time.Time // of families with sessions: the newest deadline, where it was moved
	draining bool
	backlog  backlog
	debts    map[string]debt
	log      []keptEvent // ring of the newest events; event seq is at seq % keptEvents
	others   *others     // sessions on other nodes of the cluster; nil: no cluster
	seq      uint64      // of the newest event
}

// keptEvents bounds the memory of events. A token check during which more of them come fails with
// overloaded.
const keptEvents = 1024

// checkedDebts is how many debts are checked before another one is added.
const checkedDebts = 4

// retryAfterLimit is Retry-After above the limit of connections, in seconds: about as long as a
// dead connection counts.
const retryAfterLimit = 30

// entry is a session in the registry, in two lists: the sessions of its user and those of its token
// family. They are short, and links take less memory than slices. Its fields are guarded by the
// registry's mutex. The session, which alone causes changes of identity and name, may read those.
type entry struct {
	identity     *Identity
	name         *string // nil: none
	session      *Session
	nextOfUser   *entry
	nextOfFamily *entry
}

func (p *entry) user() string { return p.identity.User }

// sessionName returns the name of the session, or "".
func (p *entry) sessionName() string {
	if p.name == nil {
		return ""
	}
	return *p.name
}

// post passes an event to the session's host. The key of its subscriber never changes, so that any
// goroutine may read it.
func (p *entry) post(e Event) { p.session.sub.Key().(Host).Post(e) }

func (p *entry) family() string {
	if p.identity == nil {
		return ""
	}
	return p.identity.Family
}

func (p *entry) key() string {
	if p.identity == nil {
		return ""
	}
	return p.identity.KeyID
}

// keptEvent is an event that is kept for sessions that are not admitted yet.
type keptEvent struct {
	user   string // for sessions of this user; "": by key or family
	key    string // for tokens that this key signed; "": by family
	family string
	event  Event
}

// concerns reports whether e is for the session of p.
func (e *keptEvent) concerns(p *entry) bool {
	switch {
	case e.user != "":
		return e.user == p.user()
	case e.key != "":
		return e.key == p.key()
	}
	return e.family == p.family()
}

// Mark is a position in the events of a registry. The zero Mark is none.
type Mark uint64

// Mark returns the current position. Events for a token whose check starts now are passed to its
// session at admission.
func (r *Registry) Mark() Mark {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Mark(r.seq + 1)
}

// admit adds p, or moves it to the family and name of a new token. It returns the events for it
// since mark. The faults are ConnectionLimit, ShuttingDown and Overloaded; p is then unchanged.
func (r *Registry) admit(p *entry, id *Identity, name string, limit int, mark Mark) ([]Event, *wire.Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.draining && !p.session.registered {
		return nil, wire.NewFault(wire.ShuttingDown, "")
	}
	if mark != 0 && r.seq+1-uint64(mark) > keptEvents {
		return nil, wire.NewFault(wire.Overloaded, "")
	}
	if name == "" {
		name = p.sessionName()
	}
	old, connections := r.named(id.User, p, name)
	if !p.session.registered && connections+r.others.count(id.User, name) >= limit {
		return nil, &wire.Fault{Reason: wire.ConnectionLimit, RetryAfter: retryAfterLimit}
	}
	if old != nil {
		r.remove(old)
		r.others.remove(old)
		old.post(Event{Kind: Replaced})
	}
	r.remove(p)
	p.identity = id
	if name != p.sessionName() {
		kept := name // so that name does not escape
		p.name = &kept
	}
	r.add(p)
	r.others.put(p, limit)
	return r.since(mark, p), nil
}

// named returns the other session of a user with a name, or nil, and the number of the user's other
// connections and p.
func (r *Registry) named(user string, p *entry, name string) (old *entry, connections int) {
	for q := r.users[user]; q != nil; q = q.nextOfUser {
		connections++
		if q != p && name != "" && q.sessionName() == name {
			old = q
		}
	}
	if old != nil {
		connections--
	}
	return old, connections
}

// release removes p, and records when the allowance of its session is whole again. It may be called
// for an entry that was not added.
func (r *Registry) release(p *entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(p)
	if p.identity == nil {
		return
	}
	r.others.remove(p)
	if whole := p.session.allowance.whole; whole > r.debts[p.user()].messages {
		d := r.debts[p.user()]
		d.messages = whole
		r.putDebt(p.user(), d)
	}
}

// keepInput records when the input budget of a closed connection is whole again.
func (r *Registry) keepInput(user string, whole instant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d := r.debts[user]; whole > d.input {
		d.input = whole
		r.putDebt(user, d)
	}
}

// debt records allowances of a user that outlive a connection. Each field is the time at which the
// allowance is whole again.
type debt struct {
	messages instant // of the closed connection that had used the most; new ones start with it
	input    instant // the same
	work     instant // of all connections
}

// debt returns the debts of a user, with which a new connection starts.
func (r *Registry) debt(user string, t instant) debt {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removeDebts(t)
	return r.debts[user]
}

// inDebt returns how long the allowance of work of a user will be in debt.
func (r *Registry) inDebt(user string, t instant) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(0, time.Duration(r.debts[user].work-t)-workBurst*unitTime)
}

// pay charges a user for work that was done. The allowance may be in debt by one more burst.
func (r *Registry) pay(user string, t instant, units int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, known := r.debts[user]
	if !known {
		r.removeDebts(t)
	}
	most := t.add(2 * workBurst * unitTime)
	d.work = max(d.work, min(most, max(d.work, t).add(time.Duration(min(units, 2*workBurst))*unitTime)))
	r.putDebt(user, d)
}

func (r *Registry) putDebt(user string, d debt) {
	if r.debts == nil {
		r.debts = make(map[string]debt)
	}
	r.debts[user] = d
}

// removeDebts removes debts that are over. It checks only a few: each call checks more debts than
// the caller may add, so that few debts in the map are over.
func (r *Registry) removeDebts(t instant) {
	checked := 0
	for user, d := range r.debts {
		if d.messages <= t && d.input <= t && d.work <= t {
			delete(r.debts, user)
		}
		if checked++; checked == checkedDebts {
			return
		}
	}
}

func (r *Registry) add(p *entry) {
	if r.users == nil {
		r.users, r.families = make(map[string]*entry), make(map[string]*entry)
	}
	p.nextOfUser, r.users[p.user()] = r.users[p.user()], p
	p.nextOfFamily, r.families[p.family()] = r.families[p.family()], p
	p.session.registered = true
	r.size++
}

func (r *Registry) remove(p *entry) {
	if !p.session.registered {
		return
	}
	p.session.registered = false
	r.size--
	unlink(r.users, p.user(), p, nextOfUser)
	unlink(r.families, p.family(), p, nextOfFamily)
	if r.families[p.family()] == nil {
		delete(r.extended, p.family())
	}
}

// unlink removes p from the list of a name in heads.
func unlink(heads map[string]*entry, name string, p *entry, next func(*entry) **entry) {
	head := heads[name]
	at := &head
	for *at != p {
		at = next(*at)
	}
	*at, *next(p) = *next(p), nil
	if head == nil {
		delete(heads, name)
	} else {
		heads[name] = head
	}
}

// since returns the events for p from mark on.
func (r *Registry) since(mark Mark, p *entry) []Event {
	var list []Event
	for seq := uint64(mark); mark != 0 && seq <= r.seq; seq++ {
		e := &r.log[seq%keptEvents]
		if e.concerns(p) {
			list = append(list, e.event)
		}
	}
	return list
}

// keep records an event for sessions that are not admitted yet.
func (r *Registry) keep(e keptEvent) {
	if r.log == nil {
		r.log = make([]keptEvent, keptEvents)
	}
	r.seq++
	r.log[r.seq%keptEvents] = e
}

// Revoke closes the sessions of a token family with token_revoked.
func (r *Registry) Revoke(family string) {
	r.postFamily(family, Event{Kind: Revoked})
}

// Extend moves the deadline of a family's sessions to the end of its newest access token. A
// deadline never moves back.
func (r *Registry) Extend(family string, expires time.Time) {
	r.postFamily(family, Event{Kind: Extended, Expires: expires})
}

// Expiring returns the families with a session whose known deadline comes before a time. It checks
// every family, and must not be called often.
func (r *Registry) Expiring(before time.Time) (families []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for family, p := range r.families {
		if !r.extended[family].Before(before) {
			continue
		}
		for ; p != nil; p = p.nextOfFamily {
			if p.identity.Expires.Before(before) {
				families = append(families, family)
				break
			}
		}
	}
	return families
}

// Users returns the users with a session. It checks every user, and must not be called often.
func (r *Registry) Users() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.users))
}

func (r *Registry) postFamily(family string, e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Family = family
	if e.Kind == Extended && r.families[family] != nil && e.Expires.After(r.extended[family]) {
		if r.extended == nil {
			r.extended = make(map[string]time.Time)
		}
		r.extended[family] = e.Expires
	}
	r.keep(keptEvent{family: family, event: e})
	for p := r.families[family]; p != nil; p = p.nextOfFamily {
		p.post(e)
	}
}

// RevokeKey closes the sessions whose token was signed by this key with token_revoked. That
// includes sessions whose deadline was moved by a token of another key.
func (r *Registry) RevokeKey(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := Event{Kind: Revoked, KeyID: key}
	r.keep(keptEvent{key: key, event: e})
	for _, head := range r.users {
		for p := head; p != nil; p = p.nextOfUser {
			if p.key() == key {
				p.post(e)
			}
		}
	}
}

// RevokeUser closes all sessions of a user with token_revoked.
func (r *Registry) RevokeUser(user string) {
	r.postUser(user, Event{Kind: Revoked})
}

// GrantsChanged gives a user's sessions their new scopes, rights and limits. Subscriptions that are
// no longer allowed are removed.
func (r *Registry) GrantsChanged(user string, g Grants) {
	r.postUser(user, Event{Kind: GrantsChanged, Grants: &g})
}

func (r *Registry) postUser(user string, e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep(keptEvent{user: user, event: e})
	for p := r.users[user]; p != nil; p = p.nextOfUser {
		p.post(e)
	}
}

// Drain admits no more sessions and gives each one its own time to reconnect, spread evenly over
// the window.
func (r *Registry) Drain(window time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.draining = true
	i := 0
	for _, head := range r.users {
		for p := head; p != nil; p = p.nextOfUser {
			i++
			p.post(Event{Kind: Drain, In: window * time.Duration(i) / time.Duration(r.size)})
		}
	}
}

// EndEpoch makes all sessions leave the stream until the hub has begun another epoch. Call it after
// EndEpoch of the hub.
func (r *Registry) EndEpoch() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, head := range r.users {
		for p := head; p != nil; p = p.nextOfUser {
			p.post(Event{Kind: EpochEnds})
		}
	}
}

// Admit admits new sessions after a Drain.
func (r *Registry) Admit() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.draining = false
}

// before returns how many of its user's sessions were admitted before p and still exist.
func (r *Registry) before(p *entry) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !p.session.registered {
		return 0
	}
	return count(p, nextOfUser) - 1
}

// Connections returns how many sessions a user has.
func (r *Registry) Connections(user string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return count(r.users[user], nextOfUser)
}

// FamilyConnections returns how many sessions a token family has.
func (r *Registry) FamilyConnections(family string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return count(r.families[family], nextOfFamily)
}

func nextOfUser(p *entry) **entry   { return &p.nextOfUser }
func nextOfFamily(p *entry) **entry { return &p.nextOfFamily }

// count returns the length of a list from p on.
func count(p *entry, next func(*entry) **entry) (n int) {
	for ; p != nil; p = *next(p) {
		n++
	}
	return n
}

// Len returns the number of sessions.
func (r *Registry) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.size
}
