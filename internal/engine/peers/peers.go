package peers

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// Config configures a Table. Zero values have the defaults that are stated.
type Config struct {
	Node   string        // name of this node
	Start  uint64        // random: names this process
	Wall   int64         // this machine's clock now, in Unix ns: sessions admitted before the first Tick come then
	Beat   time.Duration // time between two signs of life; 250 ms
	Lease  time.Duration // a node that was not heard for so long does not count; 3 s
	Settle time.Duration // how long a limit is exceeded before sessions are closed; 200 ms
}

// A Table has the sessions of this node, and those of the other nodes as far as it knows. H is the
// caller's handle of a session. It has no clock, does no I/O and starts no goroutine. It is used by
// one goroutine at a time.
type Table[H comparable] struct {
	cfg     Config
	own     map[string][]held[H] // by user, in the order of Since
	nodes   map[string]*node
	clock   int64                    // newest place that was given or heard
	wall    int64                    // of this machine at New or the newest Tick
	change  uint64                   // number of the newest change
	changed map[string]bool          // users whose lists were not sent yet
	over    map[string]time.Duration // users who exceed a limit: since when
	asked   bool                     // another node asks for all lists
	beatAt  time.Duration
}

// held is a session of this node.
type held[H comparable] struct {
	Session
	handle H
	limit  int // of the user's sessions, when this one was admitted
}

// node is another node.
type node struct {
	start, change uint64
	missing       bool // a change was missed
	users         map[string][]Session
	known         int // users and sessions in users and coming
	heard         time.Duration
	askAt         time.Duration
	coming        map[string][]Session // of a whole list whose last part is missing
	part          int                  // the next one
	whole         uint64               // the change of that list
}

// Close is a session of this node that has to be closed. The Table has removed it.
type Close[H comparable] struct {
	Handle   H
	Replaced bool // another node has a session that took its name; false: the user's limit is exceeded
}

// New returns an empty Table.
func New[H comparable](cfg Config) *Table[H] {
	cfg.Beat = cmp.Or(cfg.Beat, 250*time.Millisecond)
	cfg.Lease = cmp.Or(cfg.Lease, 3*time.Second)
	cfg.Settle = cmp.Or(cfg.Settle, 200*time.Millisecond)
	t := &Table[H]{cfg: cfg, own: make(map[string][]held[H]), nodes: make(map[string]*node), changed: make(map[string]bool), over: make(map[string]time.Duration)}
	t.setWall(cfg.Wall)
	return t
}

// setWall notes the clock of this machine.
func (t *Table[H]) setWall(wall int64) {
	t.wall = min(max(wall, 0), maxPlace-1-maxAhead)
	t.clock = max(t.clock, t.wall)
}

// Elsewhere returns the number of sessions that a user has on other nodes, without those that a new
// session with this name replaces.
func (t *Table[H]) Elsewhere(user, name string) (count int) {
	newest := t.claims(user)
	for of, n := range t.nodes {
		for _, s := range n.users[user] {
			if (name == "" || s.Name != name) && !newest.took(of, s) {
				count++
			}
		}
	}
	return count
}

// Put adds a session that this node has admitted, or gives one that it has another name. limit is
// that of the user's sessions.
func (t *Table[H]) Put(user, name string, limit int, handle H) {
	list := t.own[user]
	i := slices.IndexFunc(list, func(s held[H]) bool { return s.handle == handle })
	switch {
	case i < 0:
		i, list = len(list), append(list, held[H]{Session: Session{Since: t.next()}, handle: handle, limit: limit})
	case list[i].Name == name:
		return
	}
	list[i].Name, list[i].Claimed = name, 0
	if name != "" {
		list[i].Claimed = t.next()
	}
	t.own[user], t.changed[user] = list, true
}

// Remove removes a session of this node, if it is there.
func (t *Table[H]) Remove(user string, handle H) {
	list := slices.DeleteFunc(t.own[user], func(s held[H]) bool { return s.handle == handle })
	if len(list) == len(t.own[user]) {
		return
	}
	t.changed[user] = true
	if t.own[user] = list; len(list) == 0 {
		delete(t.own, user)
	}
}

// next returns the next place in the order of sessions.
func (t *Table[H]) next() int64 {
	t.clock++
	return t.clock
}

// Changed reports whether Tick has something to send now.
func (t *Table[H]) Changed() bool { return len(t.changed) > 0 || t.asked }

// Nodes returns the number of other nodes that count.
func (t *Table[H]) Nodes() int { return len(t.nodes) }

// Tick returns the messages for all other nodes, and the sessions to close. Call it when Changed
// returns true, and at least twice in the time of a beat. now is the time since the process
// started, and wall that of this machine's clock in Unix ns. What cannot be sent may be dropped.
func (t *Table[H]) Tick(now time.Duration, wall int64) (send [][]byte, closed []Close[H]) {
	t.setWall(wall)
	for name, n := range t.nodes {
		if now-n.heard >= t.cfg.Lease {
			t.forget(now, name)
		}
	}
	for user, since := range t.over {
		if now-since >= t.cfg.Settle {
			delete(t.over, user)
			for _, handle := range t.excess(user) {
				closed = append(closed, Close[H]{Handle: handle})
				t.Remove(user, handle)
			}
		}
	}
	for user := range t.changed {
		t.noteExcess(now, user)
	}
	send = t.sendChanges(send)
	if t.asked {
		t.asked = false
		send = t.sendWhole(send)
	}
	for name, n := range t.nodes {
		if n.missing && now >= n.askAt {
			n.askAt = now + t.cfg.Beat
			send = t.append(send, message{Kind: ask, To: name})
		}
	}
	if now >= t.beatAt || len(send) > 0 {
		t.beatAt = now + t.cfg.Beat
		if len(send) == 0 {
			send = t.append(send, message{Kind: beat})
		}
	}
	return send, closed
}

// append appends a message.
func (t *Table[H]) append(send [][]byte, m message) [][]byte {
	m.Node, m.Start, m.Change, m.Clock = t.cfg.Node, t.cfg.Start, t.change, t.clock
	data, err := json.Marshal(m)
	if err != nil {
		return send // a struct of numbers and strings always encodes
	}
	return append(send, data)
}

// sendChanges appends the lists that have changed.
func (t *Table[H]) sendChanges(send [][]byte) [][]byte {
	if len(t.changed) == 0 {
		return send
	}
	for _, list := range pieces(t.lists(slices.Sorted(maps.Keys(t.changed)))) {
		t.change++
		send = t.append(send, message{Kind: change, Users: list})
	}
	clear(t.changed)
	return send
}

// sendWhole appends all lists.
func (t *Table[H]) sendWhole(send [][]byte) [][]byte {
	cut := pieces(t.lists(slices.Sorted(maps.Keys(t.own))))
	for i, list := range cut {
		send = t.append(send, message{Kind: whole, Users: list, Part: i, Last: i == len(cut)-1})
	}
	return send
}

// lists returns the lists of users, with the newest sessions of one who has more than a message may
// have.
func (t *Table[H]) lists(users []string) []user {
	all := make([]user, 0, len(users))
	for _, id := range users {
		u, own := user{ID: id}, t.own[id]
		for _, s := range own[max(0, len(own)-maxSessions):] {
			u.Sessions = append(u.Sessions, s.Session)
		}
		all = append(all, u)
	}
	return all
}

// Heard handles a message of another node, and returns the sessions to close. It ignores its own
// messages, and those that it cannot read.
func (t *Table[H]) Heard(now time.Duration, data []byte) (closed []Close[H]) {
	m, ok := read(data)
	if !ok || m.Node == t.cfg.Node {
		return nil
	}
	t.clock = max(t.clock, min(m.Clock, t.wall+maxAhead))
	n := t.nodes[m.Node]
	if n == nil || n.start != m.Start {
		if n == nil && len(t.nodes) >= maxNodes {
			return nil
		}
		t.forget(now, m.Node)
		n = &node{start: m.Start, missing: m.Change > 0, users: make(map[string][]Session)}
		if m.Kind == change {
			n.change = m.Change - 1
			n.missing = n.change > 0
		}
		t.nodes[m.Node] = n
	}
	n.heard = now
	switch m.Kind {
	case beat:
		n.missing = n.missing || m.Change > n.change
	case ask:
		n.missing = n.missing || m.Change > n.change
		t.asked = t.asked || m.To == t.cfg.Node
	case change:
		if m.Change <= n.change {
			return nil
		}
		n.missing = n.missing || m.Change != n.change+1
		n.change = m.Change
		return t.listed(now, m.Node, m.Users)
	case whole:
		return t.heardWhole(now, n, &m)
	}
	return nil
}

// heardWhole handles a part of all lists of a node.
func (t *Table[H]) heardWhole(now time.Duration, n *node, m *message) (closed []Close[H]) {
	if !n.missing || m.Change < n.change {
		return nil
	}
	if m.Part == 0 {
		n.known -= weight(n.coming)
		n.coming, n.part, n.whole = make(map[string][]Session), 0, m.Change
	}
	whole := n.coming != nil && m.Part == n.part && m.Change == n.whole
	for i := 0; i < len(m.Users) && whole; i++ {
		whole = t.put(n, n.coming, m.Users[i])
	}
	if !whole {
		n.known -= weight(n.coming)
		n.coming = nil
		return nil // it is asked for again
	}
	n.part++
	if !m.Last {
		return nil
	}
	was := n.users
	n.users, n.coming = n.coming, nil
	n.known -= weight(was)
	n.change, n.missing = m.Change, false
	for id := range n.users {
		closed = t.review(now, closed, id)
	}
	for id := range was {
		t.noteExcess(now, id)
	}
	return closed
}

// forget forgets a node and its sessions.
func (t *Table[H]) forget(now time.Duration, name string) {
	n := t.nodes[name]
	if n == nil {
		return
	}
	delete(t.nodes, name)
	for id := range n.users {
		t.noteExcess(now, id)
	}
}

// put sets the list of a user in users, which is a map of n. It returns false if the lists of all
// nodes would exceed maxKnown: this list is then left out.
func (t *Table[H]) put(n *node, users map[string][]Session, u user) bool {
	if was, ok := users[u.ID]; ok {
		n.known -= 1 + len(was)
		delete(users, u.ID)
	}
	if len(u.Sessions) == 0 {
		return true
	}
	all := 1 + len(u.Sessions)
	for _, x := range t.nodes {
		all += x.known
	}
	if all > maxKnown {
		return false
	}
	n.known += 1 + len(u.Sessions)
	users[u.ID] = u.Sessions
	return true
}

// weight returns the number of users and sessions.
func weight(users map[string][]Session) (n int) {
	for _, list := range users {
		n += 1 + len(list)
	}
	return n
}

// listed handles new lists of users on a node.
func (t *Table[H]) listed(now time.Duration, from string, users []user) (closed []Close[H]) {
	n := t.nodes[from]
	for _, u := range users {
		t.put(n, n.users, u)
		closed = t.review(now, closed, u.ID)
	}
	return closed
}

// review closes the sessions of a user on this node whose name was taken by a session of another
// one.
func (t *Table[H]) review(now time.Duration, closed []Close[H], user string) []Close[H] {
	if len(t.own[user]) == 0 {
		t.noteExcess(now, user)
		return closed // most users of other nodes
	}
	newest := t.claims(user)
	for _, s := range slices.Clone(t.own[user]) {
		if newest.took(t.cfg.Node, s.Session) {
			closed = append(closed, Close[H]{Handle: s.handle, Replaced: true})
			t.Remove(user, s.handle)
		}
	}
	t.noteExcess(now, user)
	return closed
}

// noteExcess notes whether sessions of a user on this node exceed a limit.
func (t *Table[H]) noteExcess(now time.Duration, user string) {
	_, noted := t.over[user]
	switch {
	case len(t.excess(user)) == 0:
		delete(t.over, user)
	case !noted:
		t.over[user] = now
	}
}

// excess returns the sessions of a user on this node that exceed a limit.
func (t *Table[H]) excess(user string) (list []H) {
	if len(t.own[user]) == 0 {
		return nil
	}
	all := len(t.own[user])
	for _, n := range t.nodes {
		all += len(n.users[user])
	}
	newest := t.claims(user)
	for _, s := range t.own[user] {
		if all > s.limit && t.exceeds(user, s, newest) { // exceeds compares all sessions
			list = append(list, s.handle)
		}
	}
	return list
}

// claim is the newest claim of a name.
type claim struct {
	at   int64
	node string
}

func (c claim) before(x claim) bool {
	return cmp.Or(cmp.Compare(c.at, x.at), cmp.Compare(c.node, x.node)) < 0
}

// claims are the newest claims of the names of a user on all nodes.
type claims map[string]claim

// claims returns the newest claims of a user's names.
func (t *Table[H]) claims(user string) claims {
	newest := claims{}
	note := func(of string, s Session) {
		if c, ok := newest[s.Name]; s.Name != "" && (!ok || c.before(claim{s.Claimed, of})) {
			newest[s.Name] = claim{s.Claimed, of}
		}
	}
	for _, x := range t.own[user] {
		note(t.cfg.Node, x.Session)
	}
	for name, n := range t.nodes {
		for _, x := range n.users[user] {
			note(name, x)
		}
	}
	return newest
}

// took reports whether a newer session of the user has the name of a session of a node.
func (c claims) took(of string, s Session) bool {
	return s.Name != "" && claim{s.Claimed, of}.before(c[s.Name])
}

// exceeds reports whether a session of this node exceeds its limit: as many earlier sessions of the
// user still exist as the limit allows.
func (t *Table[H]) exceeds(user string, s held[H], newest claims) bool {
	before := 0
	for _, x := range t.own[user] {
		if x.Since < s.Since {
			before++
		}
	}
	for name, n := range t.nodes {
		for _, x := range n.users[user] {
			if cmp.Or(cmp.Compare(x.Since, s.Since), cmp.Compare(name, t.cfg.Node)) < 0 && !newest.took(name, x) {
				before++
			}
		}
	}
	return before >= s.limit
}
