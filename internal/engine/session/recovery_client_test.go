package session_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/api/asyncapi/asyncapitest"
	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/market"
)

// recoveryClient is a client that uses only the protocol. It knows its subscriptions, the messages
// that it received, and what must come next.
type recoveryClient struct {
	w       *recoveryWorld
	name    string
	user    string
	sess    *session.Session
	notices []session.Event
	pieces  []session.Event // NextPiece
	paused  int             // steps for which it reads nothing

	set     map[entry]bool
	follows map[entry]*recoveryProgress // trades and statuses of each instrument that is covered
	books   map[string]uint64           // N of the newest message of each book
	lastID  int
	waits   map[int]*recoveryRequest // requests without an answer, by id
	replays map[int]*recoveryRequest // resumes that have not caught up
	resumed map[string]uint64        // of the newest answer, for trades

	position string // the newest that it was given
	epoch    string
	log      []string
}

// recoveryProgress is the newest message of a sequence that a client has.
type recoveryProgress struct {
	n     uint64 // received, or known to be before what comes
	known bool   // n is known: the next message has n+1
	again bool   // until then messages up to n may come again
}

// recoveryRequest is a request that has not been answered.
type recoveryRequest struct {
	text     string
	replace  bool
	state    bool // states are requested
	status   []string
	seen     map[entry]uint64 // N named in resume
	position map[entry]uint64 // what was received before the position in resume, at least
	resumed  map[string]uint64
	moved    bool // rights changed before its answer
}

type recoveryMessage struct {
	Type, Msg, I, T, E, Reason, Epoch, Position string
	ID                                          int
	N, L, DE                                    uint64
	R                                           bool
	Trades, Quotes, Status                      []string
	OrderBook                                   []string `json:"order_book"`
	Removed, Moved                              []struct{ Channel, Instrument string }
	Resumed                                     map[string]map[string]uint64
	Lost                                        map[string]map[string]struct {
		From, To uint64
		Reason   string
	}
}

// Post queues an event.
func (c *recoveryClient) Post(n session.Event) {
	if n.Kind == session.NextPiece {
		c.pieces = append(c.pieces, n)
		return
	}
	c.notices = append(c.notices, n)
}

// nextPieces handles some of the pieces that its messages have left.
func (c *recoveryClient) nextPieces() {
	for range c.w.rng.IntN(3) {
		if len(c.pieces) == 0 {
			return
		}
		c.w.count.Pieces++
		n := c.pieces[0]
		c.pieces = c.pieces[1:]
		c.sess.Handle(time.Now(), n)
	}
}

func (c *recoveryClient) hear() {
	for len(c.notices) > 0 {
		n := c.notices[0]
		c.notices = c.notices[1:]
		c.note("-- notice %d, rights %v", n.Kind, c.w.grants[c.user].Rights)
		c.sess.Handle(time.Now(), n)
		clear(c.replays) // a replay may go on at another delay
		for _, q := range c.waits {
			q.moved = true
		}
	}
}

func (c *recoveryClient) note(format string, args ...any) {
	c.log = append(c.log, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (c *recoveryClient) fatal(format string, args ...any) {
	c.w.t.Helper()
	c.w.t.Fatalf("seed %d, %s of %s: %s\nset %v\n%s", c.w.seed, c.name, c.user, fmt.Sprintf(format, args...),
		c.set, strings.Join(c.log[max(0, len(c.log)-30):], "\n"))
}

func (c *recoveryClient) connect() {
	c.sess, c.notices, c.pieces = new(session.Session), nil, nil
	c.set, c.follows, c.books = map[entry]bool{}, map[entry]*recoveryProgress{}, map[string]uint64{}
	c.waits, c.replays = map[int]*recoveryRequest{}, map[int]*recoveryRequest{}
	id := &session.Identity{User: c.user, Family: "f", Expires: time.Now().Add(1e6 * time.Second), Grants: *c.w.grants[c.user]}
	c.sess.Start(c.w.env, session.Peer{Identity: id}, c.w.shards[c.w.rng.IntN(len(c.w.shards))], c, time.Now())
	c.read(64 << 10)
}

func (c *recoveryClient) disconnect() { c.sess.PeerGone() }

// reconnect connects, and subscribes to the set with the known progress of each sequence.
func (c *recoveryClient) reconnect() {
	all, follows, position, epoch := c.sorted(), c.follows, c.position, c.epoch
	c.connect()
	if epoch != c.w.hub.Epoch() || c.w.chance(10) {
		follows = nil // an epoch ended, or the client starts afresh
	}
	if follows == nil || c.w.chance(3) {
		position = ""
	}
	cut := len(all)
	if c.w.chance(2) {
		cut = c.w.rng.IntN(len(all) + 1)
	}
	for _, part := range [][]entry{all[:cut], all[cut:]} {
		if len(part) > 0 {
			c.resume(part, follows, position)
		}
	}
}

// sorted returns the set in a fixed order.
func (c *recoveryClient) sorted() []entry {
	return slices.SortedFunc(maps.Keys(c.set), func(a, b entry) int {
		return strings.Compare(a.channel+a.name, b.channel+b.name)
	})
}

// resume subscribes to identifiers with the known progress of their sequences.
func (c *recoveryClient) resume(part []entry, follows map[entry]*recoveryProgress, position string) {
	lists, resume := map[string][]string{}, map[string]any{"epoch": c.w.hub.Epoch()}
	q := &recoveryRequest{seen: map[entry]uint64{}, position: map[entry]uint64{}, state: true}
	named := map[string]map[string]uint64{}
	for _, e := range part {
		lists[e.channel] = append(lists[e.channel], e.name)
		if p := follows[e]; p != nil && p.known && !strings.Contains(e.name, "*") && (position == "" || c.w.chance(2)) {
			if named[e.channel] == nil {
				named[e.channel] = map[string]uint64{}
			}
			named[e.channel][e.name] = p.n
			q.seen[e] = p.n
		}
	}
	for channel, list := range named {
		resume[channel] = list
	}
	if position != "" {
		resume["position"] = position
		for e, p := range follows {
			if p.known {
				q.position[e] = p.n
			}
		}
	}
	m := map[string]any{"action": "subscribe", "snapshot": c.w.chance(2)}
	q.state = m["snapshot"].(bool)
	for channel, list := range lists {
		m[channel] = list
	}
	if len(named) > 0 || position != "" {
		c.w.count.Resumes++
		m["resume"] = resume
	}
	c.send(m, q)
}

func (c *recoveryClient) subscribe() {
	q := &recoveryRequest{replace: c.w.chance(5), state: c.w.chance(2)}
	m := map[string]any{
		"action": "subscribe", "replace": q.replace, "snapshot": q.state,
		"trades": c.w.names(3), "status": c.w.names(2), "quotes": c.w.names(1), "order_book": c.w.names(1),
	}
	if c.w.chance(2) {
		m["depth"] = []int{0, 1, 5}[c.w.rng.IntN(3)]
	}
	if c.w.chance(3) {
		m["conflate"] = []string{"100ms", "1s"}[c.w.rng.IntN(2)]
	}
	q.status = m["status"].([]string)
	c.send(m, q)
}

func (c *recoveryClient) unsubscribe() {
	lists := map[string][]string{"trades": {}, "status": {}, "quotes": {}}
	for _, e := range c.sorted() {
		if e.channel != "order_book" && c.w.chance(3) {
			lists[e.channel] = append(lists[e.channel], e.name)
		}
	}
	c.send(map[string]any{"action": "unsubscribe", "trades": lists["trades"], "status": lists["status"], "quotes": lists["quotes"]},
		&recoveryRequest{})
}

func (c *recoveryClient) resync() {
	books := []string{}
	for e := range c.set {
		if e.channel == "order_book" {
			books = append(books, e.name)
		}
	}
	slices.Sort(books)
	if len(books) > 0 {
		c.send(map[string]any{"action": "resync", "order_book": books[:1]}, &recoveryRequest{})
	}
}

func (c *recoveryClient) send(m map[string]any, q *recoveryRequest) {
	c.lastID++
	m["id"] = c.lastID
	text, err := json.Marshal(m)
	if err != nil {
		c.fatal("%v", err)
	}
	q.text = string(text)
	c.waits[c.lastID] = q
	c.note("> %s", text)
	asyncapitest.Sent(c.w.t, text)
	c.sess.Handle(time.Now(), session.Event{Kind: session.Text, Message: text})
}

// read reads pending messages several times, up to max bytes each.
func (c *recoveryClient) read(most int) {
	for range 3 {
		now := time.Now()
		b := c.sess.Output(now, nil, most)
		if len(b) == 0 {
			break
		}
		c.sess.Sent(now, len(b), len(b))
		texts, err := split(b)
		if err != nil {
			c.fatal("%v", err)
		}
		for _, text := range texts {
			c.take(text)
		}
	}
	if code, reason, ok := c.sess.Close(); ok && !c.sess.Pending() {
		if code != 4507 {
			c.fatal("closed with %d %s", code, reason)
		}
		c.w.count.SlowClosed++
		c.note("-- closed as slow")
		c.disconnect()
		c.reconnect()
	}
}

func (c *recoveryClient) take(text string) {
	c.note("< %s", text)
	c.w.count.Frames++
	// Some members of data (D, a number) and control messages differ only in case.
	var m recoveryMessage
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		c.fatal("%v in %s", err, text)
	}
	switch {
	case len(m.Type) == 1:
		c.data(&m, text)
	case m.Type == "Subscription":
		c.answer(&m, text)
	case m.Type == "CaughtUp":
		c.caughtUp(&m, text)
	case m.Type == "Error":
		if m.Reason != "not_entitled" && m.Reason != "slow_client" && m.Reason != "bad_field" {
			c.fatal("unexpected %s", text)
		}
		delete(c.waits, m.ID)
	}
	if m.Position != "" {
		c.position, c.epoch = m.Position, m.Epoch
	}
}

// answer handles an acknowledgement: it updates the set and what must come next.
func (c *recoveryClient) answer(m *recoveryMessage, text string) {
	q := c.waits[m.ID]
	delete(c.waits, m.ID)
	before := c.covers()
	lists := map[string][]string{"trades": m.Trades, "quotes": m.Quotes, "order_book": m.OrderBook, "status": m.Status}
	switch m.Msg {
	case "Subscribed":
		if q.replace {
			clear(c.set)
		}
		for channel, names := range lists {
			for _, name := range names {
				c.set[entry{channel, name}] = true
			}
		}
	case "Unsubscribed":
		for channel, names := range lists {
			for _, name := range names {
				delete(c.set, entry{channel, name})
			}
		}
	case "Rights changed":
		for _, r := range m.Removed {
			delete(c.set, entry{r.Channel, r.Instrument})
		}
		c.w.count.Moves += len(m.Moved)
	case "Resynced":
	default:
		c.fatal("unexpected %s", text)
	}
	c.resumed = m.Resumed["trades"]
	now := c.covers()
	for k := range before {
		if !now[k] {
			delete(c.follows, k)
			if k.channel == "order_book" {
				delete(c.books, k.name)
			}
		}
	}
	for k := range now {
		lost, gone := m.Lost[k.channel][k.name]
		switch {
		case gone:
			c.w.count.Lost++
			c.follows[k] = &recoveryProgress{n: lost.To, known: lost.To > 0}
		case before[k]:
		default:
			c.follows[k] = c.begin(k, q)
		}
	}
	if q != nil && !q.moved && len(m.Resumed) > 0 {
		// Existing subscriptions are ignored, because their own replay may still be running.
		resumed := maps.Clone(m.Resumed["trades"])
		maps.DeleteFunc(resumed, func(name string, _ uint64) bool { return before[entry{"trades", name}] })
		c.replays[m.ID] = &recoveryRequest{text: q.text, resumed: resumed}
	}
}

// begin returns the expected beginning of a requested sequence.
func (c *recoveryClient) begin(k entry, q *recoveryRequest) *recoveryProgress {
	if q == nil {
		return &recoveryProgress{}
	}
	if n, ok := q.seen[k]; ok {
		return &recoveryProgress{n: n, known: true}
	}
	if n, ok := q.position[k]; ok {
		return &recoveryProgress{n: n, known: true, again: true}
	}
	return &recoveryProgress{}
}

// caughtUp checks that the whole replay was received.
func (c *recoveryClient) caughtUp(m *recoveryMessage, text string) {
	q := c.replays[m.ID]
	if q == nil {
		return
	}
	delete(c.replays, m.ID)
	if len(c.waits) > 0 {
		return // a request in flight may have ended the replay
	}
	for name, n := range q.resumed {
		if p := c.follows[entry{"trades", name}]; p != nil && p.known && p.n < n {
			c.fatal("%s: resumed up to %d, and caught up at %d: %s", name, n, p.n, text)
		}
		c.w.count.Replayed++
	}
}

// covers returns the sequences that the set covers.
func (c *recoveryClient) covers() map[entry]bool {
	all := map[entry]bool{}
	for e := range c.set {
		p, err := market.ParsePattern(e.name)
		if err != nil {
			c.fatal("%v", err)
		}
		for _, name := range recoveryNames {
			if id, _ := market.ParseInstrumentID(name); p.Matches(id) {
				all[entry{e.channel, name}] = true
			}
		}
	}
	return all
}

// data checks a data message.
func (c *recoveryClient) data(m *recoveryMessage, text string) {
	at, err := time.Parse(time.RFC3339Nano, m.T)
	// A listing of a delayed instrument has the time of the listing.
	listing := m.N == 1 && m.Type == "H" || m.R && (m.E == "feed_down" || strings.Contains(text, `"B":[],"A":[]`))
	if err != nil || !listing && at.Add(time.Duration(m.DE)*time.Second).After(time.Now()) {
		c.fatal("early: %s", text)
	}
	channel := map[string]string{"T": "trades", "X": "trades", "C": "trades", "Q": "quotes", "O": "order_book", "H": "status"}[m.Type]
	if m.Type == "H" && (strings.HasPrefix(m.I, "*") || m.E == "feed_down" || m.E == "feed_up" || m.E == "gap") {
		return // such a status reaches others than its subscribers
	}
	if !c.covers()[entry{channel, m.I}] {
		c.fatal("not subscribed: %s", text)
	}
	switch channel {
	case "order_book":
		n, known := c.books[m.I]
		if !m.R && !known {
			return // no state was requested, and none came
		}
		if !m.R && m.L != n {
			c.fatal("an update of %d follows %d: %s", m.L, n, text)
		}
		c.books[m.I] = m.N
	case "trades", "status":
		if !m.R {
			c.sameRow(channel, text, m)
		}
		c.sequence(entry{channel, m.I}, m, text)
	}
}

// sequence checks the N of a trade or status.
func (c *recoveryClient) sequence(k entry, m *recoveryMessage, text string) {
	p := c.follows[k]
	if p == nil {
		c.fatal("nothing was to come of %v: %s", k, text)
	}
	switch {
	case m.R && p.known && m.N > p.n:
		c.fatal("the state of %v has N %d behind %d: what lies between was skipped: %s", k, m.N, p.n, text)
	case m.R && p.known:
		return
	case m.R:
		p.n, p.known = m.N, true
		return
	case !p.known:
	case m.N == p.n+1:
	case p.again && m.N <= p.n:
		p.n = m.N
		return
	default:
		c.fatal("%v: N %d follows %d: %s", k, m.N, p.n, text)
	}
	p.n, p.known, p.again = m.N, true, false
}
