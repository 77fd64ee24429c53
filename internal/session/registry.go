package session

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ruedahq/rueda/wire"
)

// Registry knows the authenticated sessions of a gateway by user and family. It
// counts a user's connections, gives a session's name to its newest bearer, and
// passes notices on. Its methods may be called from any goroutine.
//
// A notice may come for a token whose check is still out and whose session is
// therefore not here yet. The registry keeps the newest notices and tells them to
// a session at its admission, so that none falls into that gap.
//
// The zero Registry is empty and ready.
type Registry struct {
	mu       sync.Mutex
	users    map[string]*place // the newest session of each
	families map[string]*place
	size     int                  // sessions
	extended map[string]time.Time // of families with sessions: the newest deadline, where it was moved
	draining bool
	backlog  backlog
	debts    map[string]debt
	log      []event // ring of the newest notices; event seq is at seq % keptEvents
	seq      uint64  // of the newest event
}

// keptEvents bounds the memory of notices. A check that is out while so many go by
// is answered as overloaded.
const keptEvents = 1024

// forgotten is how many debts each admission looks at.
const forgotten = 4

// retryAfterLimit is told to a client over its connection limit, in seconds: about
// as long as a connection that died unnoticed keeps its place.
const retryAfterLimit = 30

// place is a session's entry in the registry, a link of two lists: the sessions of
// its user and those of its token family. They are short, and links cost
// less memory than a slice each. Its fields are guarded by the registry's mutex;
// the session itself, which alone causes a change of family and name, may read those.
type place struct {
	in         bool
	who        *Identity
	name       *string // nil: none
	session    *Session
	nextOfUser *place
	nextOfKin  *place // of the family
}

func (p *place) user() string { return p.who.User }

// called is the name of the session; "" none.
func (p *place) called() string {
	if p.name == nil {
		return ""
	}
	return *p.name
}

// post hands a notice to the session's host. The key of its subscriber never changes, so that
// any goroutine may read it.
func (p *place) post(n Notice) { p.session.sub.Key().(Host).Post(n) }

func (p *place) family() string {
	if p.who == nil {
		return ""
	}
	return p.who.Family
}

func (p *place) key() string {
	if p.who == nil {
		return ""
	}
	return p.who.KeyID
}

// event is a notice as it is kept for those who are yet to be admitted.
type event struct {
	user   string // of this user's sessions; "" by key or family
	key    string // of tokens that this key signed; "" by family
	family string
	notice Notice
}

// is says whether e concerns the session at p.
func (e *event) is(p *place) bool {
	switch {
	case e.user != "":
		return e.user == p.user()
	case e.key != "":
		return e.key == p.key()
	}
	return e.family == p.family()
}

// Mark is a moment in a registry's run of notices. The zero Mark was not taken.
type Mark uint64

// Mark is the present moment. Notices for a token that was checked from here on
// are told to its session at admission.
func (r *Registry) Mark() Mark {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Mark(r.seq + 1)
}

// admit enters p, or moves it to the family and name of a new token. It answers
// with the notices since mark that concern it. The faults are ConnectionLimit,
// ShuttingDown and Overloaded; p is then as it was before.
func (r *Registry) admit(p *place, id *Identity, name string, limit int, mark Mark) ([]Notice, *wire.Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.draining && !p.in {
		return nil, wire.NewFault(wire.ShuttingDown, "")
	}
	if mark != 0 && r.seq+1-uint64(mark) > keptEvents {
		return nil, wire.NewFault(wire.Overloaded, "")
	}
	if name == "" {
		name = p.called()
	}
	old, connections := r.bearer(id.User, p, name)
	if !p.in && connections >= limit {
		return nil, &wire.Fault{Reason: wire.ConnectionLimit, RetryAfter: retryAfterLimit}
	}
	if old != nil {
		r.remove(old)
		old.post(Notice{Kind: Replaced})
	}
	r.remove(p)
	p.who = id
	if name != p.called() {
		kept := name // name itself stays where it is
		p.name = &kept
	}
	r.enter(p)
	return r.since(mark, p), nil
}

// bearer is the session that has a name, unless that is p itself (nil: there is none), and counts the
// user's connections besides.
func (r *Registry) bearer(user string, p *place, name string) (old *place, connections int) {
	for q := r.users[user]; q != nil; q = q.nextOfUser {
		connections++
		if q != p && name != "" && q.called() == name {
			old = q
		}
	}
	if old != nil {
		connections--
	}
	return old, connections
}

// release takes p out, and notes when the allowance of its session is whole again. It may be called for a
// place that is not in.
func (r *Registry) release(p *place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(p)
	if p.who == nil {
		return
	}
	if rate := p.session.rate; rate > r.debts[p.user()].rate {
		r.putDebt(p.user(), debt{rate, r.debts[p.user()].resume})
	}
}

// debt is what a user owes beyond its present connections. Both are the moments when it owes nothing any more.
type debt struct {
	rate   moment // of the connection that ended and owed the most: a new one begins with that
	resume moment // of what its resumes look through
}

// owed is the moment when a new connection of a user has its whole allowance of messages.
func (r *Registry) owed(user string, t moment) moment {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(t)
	return r.debts[user].rate
}

// resume takes so many sequences out of what a user's resumes may look through, and returns how many are beyond that.
func (r *Registry) resume(user string, t moment, sequences int) (beyond int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	const each = moment(time.Minute) / freeSequences
	d := r.debts[user]
	d.resume = max(d.resume, t)
	free := min(sequences, int((t+moment(time.Minute)-d.resume)/each))
	d.resume += moment(free) * each
	r.putDebt(user, d)
	return sequences - free
}

func (r *Registry) putDebt(user string, d debt) {
	if r.debts == nil {
		r.debts = make(map[string]debt)
	}
	r.debts[user] = d
}

// forget looks at a few debts, and removes those that are over. As a user has one at most, and each
// admission looks at more than it may add, they are never many more than are owed.
func (r *Registry) forget(t moment) {
	looked := 0
	for user, d := range r.debts {
		if d.rate <= t && d.resume <= t {
			delete(r.debts, user)
		}
		if looked++; looked == forgotten {
			return
		}
	}
}

func (r *Registry) enter(p *place) {
	if r.users == nil {
		r.users, r.families = make(map[string]*place), make(map[string]*place)
	}
	p.nextOfUser, r.users[p.user()] = r.users[p.user()], p
	p.nextOfKin, r.families[p.family()] = r.families[p.family()], p
	p.in = true
	r.size++
}

func (r *Registry) remove(p *place) {
	if !p.in {
		return
	}
	p.in = false
	r.size--
	unlink(r.users, p.user(), p, nextOfUser)
	unlink(r.families, p.family(), p, nextOfKin)
	if r.families[p.family()] == nil {
		delete(r.extended, p.family())
	}
}

// unlink takes p out of the list that heads holds under name.
func unlink(heads map[string]*place, name string, p *place, next func(*place) **place) {
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

// since is what happened to p from mark on.
func (r *Registry) since(mark Mark, p *place) []Notice {
	var list []Notice
	for seq := uint64(mark); mark != 0 && seq <= r.seq; seq++ {
		e := &r.log[seq%keptEvents]
		if e.is(p) {
			list = append(list, e.notice)
		}
	}
	return list
}

// keep notes an event for those who are yet to be admitted.
func (r *Registry) keep(e event) {
	if r.log == nil {
		r.log = make([]event, keptEvents)
	}
	r.seq++
	r.log[r.seq%keptEvents] = e
}

// Revoke closes the sessions of a token family with token_revoked.
func (r *Registry) Revoke(family string) {
	r.tellFamily(family, Notice{Kind: Revoked})
}

// Extend moves the deadline of a family's sessions to the end of its newest
// access token. A deadline never moves back.
func (r *Registry) Extend(family string, expires time.Time) {
	r.tellFamily(family, Notice{Kind: Extended, Expires: expires})
}

// Expiring are the families with a session whose deadline, as far as is known here, comes before the given time. It
// looks at every family: for use once in a while.
func (r *Registry) Expiring(before time.Time) (families []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for family, p := range r.families {
		if !r.extended[family].Before(before) {
			continue
		}
		for ; p != nil; p = p.nextOfKin {
			if p.who.Expires.Before(before) {
				families = append(families, family)
				break
			}
		}
	}
	return families
}

// Users are the users who have a session, each once. It looks at every user: for use once in a while.
func (r *Registry) Users() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.users))
}

func (r *Registry) tellFamily(family string, n Notice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n.Family = family
	if n.Kind == Extended && r.families[family] != nil && n.Expires.After(r.extended[family]) {
		if r.extended == nil {
			r.extended = make(map[string]time.Time)
		}
		r.extended[family] = n.Expires
	}
	r.keep(event{family: family, notice: n})
	for p := r.families[family]; p != nil; p = p.nextOfKin {
		p.post(n)
	}
}

// RevokeKey closes the sessions whose token was signed by this key with token_revoked.
// A token of another key may have moved the deadline of such a session since: it is closed all the same.
func (r *Registry) RevokeKey(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := Notice{Kind: Revoked, KeyID: key}
	r.keep(event{key: key, notice: n})
	for _, head := range r.users {
		for p := head; p != nil; p = p.nextOfUser {
			if p.key() == key {
				p.post(n)
			}
		}
	}
}

// RevokeUser closes all sessions of a user with token_revoked.
func (r *Registry) RevokeUser(user string) {
	r.tellUser(user, Notice{Kind: Revoked})
}

// GrantsChanged tells a user's sessions their new scopes, rights and limits. What is
// no longer allowed is taken out of their subscriptions.
func (r *Registry) GrantsChanged(user string, g Grants) {
	r.tellUser(user, Notice{Kind: GrantsChanged, Grants: &g})
}

func (r *Registry) tellUser(user string, n Notice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep(event{user: user, notice: n})
	for p := r.users[user]; p != nil; p = p.nextOfUser {
		p.post(n)
	}
}

// Drain admits nobody any more and gives every session its own moment to
// reconnect, spread evenly over the window.
func (r *Registry) Drain(window time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.draining = true
	i := 0
	for _, head := range r.users {
		for p := head; p != nil; p = p.nextOfUser {
			i++
			p.post(Notice{Kind: Drain, In: window * time.Duration(i) / time.Duration(r.size)})
		}
	}
}

// before returns how many of its user's sessions were admitted before p and still exist.
func (r *Registry) before(p *place) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !p.in {
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
	return count(r.families[family], nextOfKin)
}

func nextOfUser(p *place) **place { return &p.nextOfUser }
func nextOfKin(p *place) **place  { return &p.nextOfKin }

// count returns the length of a list from p on.
func count(p *place, next func(*place) **place) (n int) {
	for ; p != nil; p = *next(p) {
		n++
	}
	return n
}

// Len is how many sessions there are.
func (r *Registry) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.size
}
