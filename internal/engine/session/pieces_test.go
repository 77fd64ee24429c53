package session_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/entitlement"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/market"
)

// TestPiecesEqualWhole sends the same random messages to two sessions: one handles each at once,
// and the other in pieces. Between the pieces come turns of the shard, further messages, changes of
// rights, new epochs and closes, which come after the message at the other session. Both clients
// must receive the same, and pay the same.
func TestPiecesEqualWhole(t *testing.T) {
	runs := 30
	if os.Getenv("RUEDA_SOAK") != "" {
		runs = 3000
	}
	var between, epochs, rights, closes int
	for seed := range runs {
		p := newPair(t, uint64(seed))
		for range 40 {
			p.step()
		}
		between, epochs, rights, closes = between+p.between, epochs+p.epochs, rights+p.rights, closes+p.closes
		for i := range p.sides {
			p.sides[i].sess.PeerGone()
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("figure: pieces: %d pieces, %d epochs, %d changes of rights and %d closes between them", between, epochs, rights, closes)
	if between < runs || epochs == 0 || rights == 0 || closes == 0 {
		t.Error("too little happened between pieces")
	}
}

// TestRefreshBetweenPieces checks that a refresh of the token, which a client may make at any time,
// does not make the rest of a message be handled at once.
func TestRefreshBetweenPieces(t *testing.T) {
	p := newPair(t, 0) // pieces of one identifier
	p.grants = session.Grants{Scopes: []string{"marketdata:read"}, Rights: entitlement.Set{{Market: market.Any, Trades: true}}}
	x := &p.sides[1]
	x.start()
	x.sess.Handle(p.now, session.Event{Kind: session.Text, Message: []byte(`{"action":"subscribe","trades":["` + strings.Join(p.names, `","`) + `"]}`)})
	x.env.Registry.Extend("f"+x.user, p.now.Add(2e6*time.Hour))
	x.hear()
	if texts := x.take(); len(texts) > 0 {
		t.Fatalf("answered at once: %q", texts)
	}
	for x.piece() {
	}
	if texts := x.take(); len(texts) != 1 || !strings.Contains(texts[0], `"count":{"trades":7}`) {
		t.Errorf("answers %q", texts)
	}
}

// TestEpochBeforeChanges checks that an epoch that comes while a message is parsed comes before the
// message.
func TestEpochBeforeChanges(t *testing.T) {
	p := newPair(t, 0) // pieces of one identifier
	p.grants = session.Grants{Scopes: []string{"marketdata:read"}, Rights: entitlement.Set{{Market: market.Any, Trades: true}}}
	for i := range p.sides {
		p.sides[i].start()
	}
	p.send(`{"action":"subscribe","trades":["` + strings.Join(p.names[:2], `","`) + `"],"resume":{"epoch":"e0","trades":{"` + p.names[0] + `":0}},"unknown":[` + strings.Repeat("0,", 2000) + `0]}`)
	if x := &p.sides[1]; !p.busy() || x.sess.Changing() {
		t.Fatalf("busy %v, changing %v", p.busy(), x.sess.Changing())
	}
	p.sides[0].take()
	p.beginEpoch()
	for p.sides[1].piece() {
	}
	texts := p.sides[1].take()
	if len(texts) != 2 || !strings.Contains(texts[0], `"epoch":"e1"`) || !strings.Contains(texts[0], `"reason":"epoch_changed"`) || !strings.Contains(texts[1], `"CaughtUp"`) {
		t.Errorf("answers %q", texts)
	}
}

// TestParsedInPieces checks that no piece parses more than its share of a long text, and that a
// mistake at its end refuses the whole message.
func TestParsedInPieces(t *testing.T) {
	p := newPair(t, 0) // pieces of 512 bytes at least, and of 2 KiB as the parser reports them
	p.grants = session.Grants{Scopes: []string{"marketdata:read"}, Rights: entitlement.Set{{Market: market.Any, Trades: true}}}
	x := &p.sides[1]
	x.start()
	for _, end := range []string{`,"action":"ping"}`, `,"action":"ping"`} {
		text := `{"unknown":[` + strings.Repeat("0,", 16<<10) + "0]" + end
		x.sess.Handle(p.now, session.Event{Kind: session.Text, Message: []byte(text)})
		pieces := 1
		for x.piece() {
			pieces++
		}
		if want := len(text)/2048 + 1; pieces < want || pieces > want+1 {
			t.Errorf("%d bytes are parsed in %d pieces, want %d", len(text), pieces, want)
		}
		texts := x.take()
		if reply := strings.HasSuffix(end, "}"); len(texts) != 1 || strings.Contains(texts[0], `"pong"`) != reply || strings.Contains(texts[0], `"bad_json"`) == reply {
			t.Errorf("ends with %s: %q", end, texts)
		}
	}
}

// TestEndedPieces checks that a message whose session ends leaves no coroutine behind.
func TestEndedPieces(t *testing.T) {
	p := newPair(t, 0) // pieces of one identifier
	p.grants = session.Grants{Scopes: []string{"marketdata:read"}, Rights: entitlement.Set{{Market: market.Any, Trades: true}}}
	before := runtime.NumGoroutine()
	x := &p.sides[1]
	for i := range 50 {
		x.start()
		x.sess.Handle(p.now, session.Event{Kind: session.Text, Message: []byte(`{"action":"subscribe","trades":["` + strings.Join(p.names, `","`) + `"]}`)})
		for range i % 10 {
			x.piece()
		}
		if i%3 == 0 {
			x.sess.Handle(p.now, session.Event{Kind: session.TooBig})
		}
		x.sess.PeerGone()
		x.piece() // that was posted
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines, %d before", after, before)
	}
}

// TestEndedPiecesArePaid checks that a client pays for the text and the identifiers of a message
// that it leaves before the answer.
func TestEndedPiecesArePaid(t *testing.T) {
	p := newPair(t, 0) // pieces of one identifier
	p.grants = session.Grants{Scopes: []string{"marketdata:read"}, Rights: entitlement.Set{{Market: market.Any, Trades: true}}}
	x := &p.sides[1]
	x.start()
	before := x.env.Owed(x.user, p.now)
	x.sess.Handle(p.now, session.Event{Kind: session.Text, Message: []byte(`{"action":"subscribe","trades":["` + strings.Join(p.names, `","`) + `"]}` + strings.Repeat(" ", 10<<10))})
	for !x.sess.Changing() && x.piece() {
	}
	if !x.sess.Changing() || len(x.take()) > 0 {
		t.Fatal("the message is answered")
	}
	x.sess.PeerGone()
	if paid, least := x.env.Owed(x.user, p.now)-before, 8+len(p.names); paid < least {
		t.Errorf("%d units are paid, want at least %d", paid, least)
	}
}

// TestEndedPiecesAreNotUsed checks that a message whose session ends between two pieces neither
// ends the uses of other sessions of the user nor leaves its own open.
func TestEndedPiecesAreNotUsed(t *testing.T) {
	for _, message := range []string{`{"action":"subscribe","trades":["%s"]}`, `{"action":"unsubscribe","trades":["%s"]}`} {
		for pieces := range 20 {
			p := newPair(t, 0) // pieces of one identifier
			p.grants = session.Grants{Scopes: []string{"marketdata:read"}, Rights: entitlement.Set{{Market: market.Any, Trades: true}}}
			x, open := &p.sides[1], map[session.Use]int{}
			x.env.Used = func(_ string, u session.Use, by int) { open[u] += by }
			x.start()
			list := strings.Join(p.names, `","`)
			if !strings.HasPrefix(message, `{"action":"subscribe"`) {
				x.sess.Handle(p.now, session.Event{Kind: session.Text, Message: fmt.Appendf(nil, `{"action":"subscribe","trades":["%s"]}`, list)})
				for x.piece() {
				}
			}
			x.sess.Handle(p.now, session.Event{Kind: session.Text, Message: fmt.Appendf(nil, message, list)})
			for range pieces {
				x.piece()
			}
			x.sess.PeerGone()
			for u, n := range open {
				if n != 0 {
					t.Errorf("%s: after %d pieces, %d sessions use %v", message[:22], pieces, n, u)
				}
			}
		}
	}
}

// TestEndedResyncIsPaid checks that a client pays for the snapshots of a resync even if it
// disconnects before the answer.
func TestEndedResyncIsPaid(t *testing.T) {
	p := newPair(t, 0)
	p.grants = session.Grants{Scopes: []string{"marketdata:read"}, Rights: entitlement.Set{{Market: market.Any, Trades: true, Quotes: true}}}
	x := &p.sides[1]
	x.start()
	list := strings.Join(p.names, `","`)
	x.sess.Handle(p.now, session.Event{Kind: session.Text, Message: []byte(`{"action":"subscribe","quotes":["` + list + `"]}`)})
	for x.piece() {
	}
	x.take()
	resync := session.Event{Kind: session.Text, Message: []byte(`{"action":"resync","quotes":["` + list + `"]}` + strings.Repeat(" ", 4<<10))}
	before, pieces := x.env.Owed(x.user, p.now), 0
	x.sess.Handle(p.now, resync)
	for ; x.piece(); pieces++ {
	}
	x.take()
	whole := x.env.Owed(x.user, p.now) - before
	x.sess.Handle(p.now, resync)
	for range pieces - 1 {
		x.piece()
	}
	if texts := x.take(); len(texts) > 0 {
		t.Fatalf("answered: %q", texts)
	}
	x.sess.PeerGone()
	if paid := x.env.Owed(x.user, p.now) - before - whole; paid < len(p.names)+4 {
		t.Errorf("%d of %d units are paid before the last of %d pieces", paid, whole, pieces)
	}
}

// TestClosedPieces checks that an event that closes a session drops the rest of its message. A
// client can cause Replaced at any time.
func TestClosedPieces(t *testing.T) {
	for _, kind := range []session.EventKind{session.Revoked, session.Replaced, session.Exceeds, session.Overload, session.ByOperator, session.Broken} {
		p := newPair(t, 0) // pieces of one identifier
		p.grants = session.Grants{Scopes: []string{"marketdata:read"}, Rights: entitlement.Set{{Market: market.Any, Trades: true}}}
		x := &p.sides[1]
		x.start()
		x.sess.Handle(p.now, session.Event{Kind: session.Text, Message: []byte(`{"action":"subscribe","trades":["` + strings.Join(p.names, `","`) + `"]}`)})
		x.sess.Handle(p.now, session.Event{Kind: kind})
		if texts := x.take(); len(texts) != 1 || !strings.Contains(texts[0], `"Error"`) {
			t.Errorf("kind %d: %q", kind, texts)
		}
		x.sess.PeerGone()
	}
}

// side is one of the two sessions of a pair.
type side struct {
	p      *pair
	env    *session.Env
	sess   *session.Session
	user   string
	events []session.Event
	pieces []session.Event
	log    []string
}

// Post queues an event.
func (x *side) Post(e session.Event) {
	if e.Kind == session.NextPiece {
		x.pieces = append(x.pieces, e)
		return
	}
	x.events = append(x.events, e)
}

// hear handles the events that were posted.
func (x *side) hear() {
	for len(x.events) > 0 {
		e := x.events[0]
		x.events = x.events[1:]
		x.sess.Handle(x.p.now, e)
	}
}

// piece handles a piece of a message. It returns false if none is left.
func (x *side) piece() bool {
	if len(x.pieces) == 0 {
		return false
	}
	e := x.pieces[0]
	x.pieces = x.pieces[1:]
	x.sess.Handle(x.p.now, e)
	return true
}

func (x *side) start() {
	id := &session.Identity{User: x.user, Family: "f" + x.user, Expires: x.p.now.Add(1e6 * time.Hour), Grants: x.p.grants}
	x.sess, x.pieces, x.events = new(session.Session), nil, nil
	x.sess.Start(x.env, session.Peer{Identity: id}, x.p.shard, x, x.p.now)
	x.take()
}

// take reads all output.
func (x *side) take() (texts []string) {
	for {
		b := x.sess.Output(x.p.now, nil, 64<<10)
		if len(b) == 0 && !x.sess.Unfinished() {
			return texts
		}
		x.sess.Sent(x.p.now, len(b), len(b))
		list, err := split(b)
		if err != nil {
			x.p.t.Fatal(err)
		}
		texts = append(texts, list...)
	}
}

// pair is a market with two sessions. The first one handles messages at once.
type pair struct {
	t       *testing.T
	rng     *rand.Rand
	now     time.Time
	hub     *hub.Hub
	shard   *subscription.Shard
	sides   [2]side
	grants  session.Grants
	names   []string
	handles []market.Handle
	epoch   int
	seen    map[string]int // N of the newest trade, by name

	position                        string
	between, epochs, rights, closes int
}

func newPair(t *testing.T, seed uint64) *pair {
	p := &pair{t: t, rng: rand.New(rand.NewPCG(seed, 1)), now: time.Now(), hub: hub.New(hub.Config{Epoch: "e0", TradesKept: 20}), seen: map[string]int{}}
	p.shard = subscription.NewShard(p.hub, func(bool) {})
	p.grants = p.randomGrants()
	registry := &session.Registry{} // of both, so that events reach both
	for i := range p.sides {
		env := &session.Env{Registry: registry, Version: "test", Origin: p.now, PingInterval: 1e6 * time.Hour, BadMessages: 1 << 20, MessagesPerSecond: 1 << 20, BookWildcards: true, Used: func(string, session.Use, int) {}}
		env.SetPiece([]int{1 << 20, 1 + int(seed%3)}[i])
		p.sides[i] = side{p: p, env: env, user: fmt.Sprint("u", i)}
	}
	p.names = append(p.names, "A|M|X", "B|M|X", "C|M|Y", "D|M|Y", "E|N|X", "F|N|Y", "G|N|X")
	p.define()
	for i := range p.sides {
		p.sides[i].start()
	}
	return p
}

// define lists the instruments.
func (p *pair) define() {
	p.handles = nil
	for _, name := range p.names {
		id, err := market.ParseInstrumentID(name)
		if err != nil {
			p.t.Fatal(err)
		}
		h, err := p.hub.Define(market.Instrument{ID: id, PriceDecimals: 2, StartsEmpty: true})
		if err != nil {
			p.t.Fatal(err)
		}
		p.handles = append(p.handles, h)
	}
}

func (p *pair) randomGrants() session.Grants {
	g := session.Grants{Scopes: []string{"marketdata:read", "marketdata:depth", "marketdata:wildcard", "marketdata:history"}}
	for _, name := range []string{"M", "N"} {
		if p.rng.IntN(6) > 0 {
			g.Rights = append(g.Rights, entitlement.Set{{Market: name, Trades: true, Quotes: p.rng.IntN(6) > 0, Depth: []int{-1, 5, 0}[p.rng.IntN(3)]}}...)
		}
	}
	return g
}

// list returns random identifiers, some of which are patterns, unknown or malformed.
func (p *pair) list() []string {
	list := []string{}
	for range p.rng.IntN(6) {
		switch p.rng.IntN(10) {
		case 0, 1:
			list = append(list, []string{"*|M|*", "*|*|X", "A|*|*", "*|N|Y"}[p.rng.IntN(4)])
		case 2:
			list = append(list, []string{"NO|M|X", "A", "*|NO|*"}[p.rng.IntN(3)])
		default:
			list = append(list, p.names[p.rng.IntN(len(p.names))])
		}
	}
	return list
}

// message returns a random message.
func (p *pair) message() string {
	trades := p.list()
	m := map[string]any{"action": "subscribe", "id": p.rng.IntN(1000), "trades": trades}
	for _, channel := range []string{"quotes", "order_book", "status", "summary", "bars"} {
		if p.rng.IntN(2) == 0 {
			m[channel] = p.list()
		}
	}
	switch p.rng.IntN(8) {
	case 0, 1:
		m["action"] = "unsubscribe"
		return p.text(m)
	case 2:
		return p.text(map[string]any{"action": "resync", "order_book": p.list(), "quotes": p.list(), "status": p.list()})
	case 3:
		m["replace"] = true
	case 4, 5:
		seen := map[string]int{}
		for _, name := range trades {
			if n, ok := p.seen[name]; ok && p.rng.IntN(2) == 0 {
				seen[name] = p.rng.IntN(n + 2)
			}
		}
		resume := map[string]any{"epoch": fmt.Sprint("e", p.epoch), "trades": seen}
		if p.position != "" && p.rng.IntN(2) == 0 {
			resume["position"] = p.position
		}
		m["resume"] = resume
	}
	m["snapshot"] = p.rng.IntN(3) > 0
	if p.rng.IntN(2) == 0 {
		m["depth"], m["conflate"] = []int{0, 1, 5}[p.rng.IntN(3)], []string{"none", "100ms"}[p.rng.IntN(2)]
	}
	return p.text(m)
}

func (p *pair) text(m map[string]any) string {
	b, err := json.Marshal(m)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(b)
}

// step sends a message and lets something happen between its pieces. Then rows are published.
func (p *pair) step() {
	p.now = p.now.Add(time.Second)
	p.send(p.message())
	if p.rng.IntN(2) == 0 {
		p.pieces()
		switch p.rng.IntN(6) {
		case 0:
			p.changeRights()
		case 1:
			// Without the second condition, the epoch may come before the message; see
			// TestEpochBeforeChanges.
			if p.rng.IntN(4) == 0 && (!p.busy() || p.sides[1].sess.Changing()) {
				p.beginEpoch()
			}
		case 2:
			if p.rng.IntN(8) == 0 {
				p.close()
			}
		case 3:
			p.send(p.message()) // waits
		case 4:
			p.send(`{"action":"ping","id":1}`)
		case 5:
			p.timers()
		}
	}
	for p.sides[1].piece() {
		p.count()
	}
	p.compare()
	for range p.rng.IntN(8) {
		p.publish()
	}
	p.compare()
}

func (p *pair) send(msg string) {
	for i := range p.sides {
		x := &p.sides[i]
		x.log = append(x.log, "> "+msg)
		x.sess.Handle(p.now, session.Event{Kind: session.Text, Message: []byte(msg)})
	}
}

// pieces handles some pieces of the second session, and turns of the shard between them.
func (p *pair) pieces() {
	for range p.rng.IntN(4) {
		if p.sides[1].piece() {
			p.count()
		}
		for p.shard.Turn(); p.shard.Next() != nil; {
		}
	}
}

func (p *pair) count() { p.between++ }

// busy reports whether the second session has pieces left.
func (p *pair) busy() bool { return len(p.sides[1].pieces) > 0 }

func (p *pair) changeRights() {
	if p.busy() {
		p.rights++
	}
	p.grants = p.randomGrants()
	for i := range p.sides {
		p.sides[i].env.Registry.GrantsChanged(p.sides[i].user, p.grants)
		p.sides[i].hear()
	}
}

// beginEpoch begins an epoch, in which the instruments are listed again.
func (p *pair) beginEpoch() {
	if p.busy() {
		p.epochs++
	}
	p.epoch++
	p.hub.EndEpoch()
	p.sides[0].env.Registry.EndEpoch()
	for i := range p.sides {
		p.sides[i].hear()
	}
	if err := p.hub.BeginEpoch(p.t.Context(), fmt.Sprint("e", p.epoch), p.hub.Figures().Position); err != nil {
		p.t.Fatal(err)
	}
	p.define()
	clear(p.seen)
	for i := range p.sides {
		p.sides[i].hear()
	}
}

// close ends both sessions, by the server or by the client, and connects again.
func (p *pair) close() {
	if p.busy() {
		p.closes++
	}
	gone, left := p.rng.IntN(2) == 0, p.busy()
	for i := range p.sides {
		switch x := &p.sides[i]; {
		case gone:
			x.sess.PeerGone()
		case left:
			x.take() // only the first session has answered
			fallthrough
		default:
			x.sess.Handle(p.now, session.Event{Kind: session.Revoked})
		}
	}
	if whole, pieces := p.owed(); gone || left { // the second session was not at the end of its message
		if pieces > whole {
			p.t.Errorf("the whole costs %d, some pieces %d", whole, pieces)
		}
		p.sides[1].env.Spend("u1", p.now, max(0, whole-pieces))
	}
	if !gone {
		p.compare()
	}
	for i := range p.sides {
		p.sides[i].sess.PeerGone()
	}
	for i := range p.sides {
		p.sides[i].start()
	}
}

// owed returns what both users owe.
func (p *pair) owed() (whole, pieces int) {
	return p.sides[0].env.Owed("u0", p.now), p.sides[1].env.Owed("u1", p.now)
}

func (p *pair) timers() {
	for i := range p.sides {
		p.sides[i].sess.Handle(p.now, session.Event{Kind: session.Timer})
	}
}

func (p *pair) publish() {
	k := p.rng.IntN(len(p.handles))
	level := func(price int) []market.Level {
		return []market.Level{{Price: market.Price(price) * market.Scale, Size: market.Size(1+p.rng.IntN(9)) * market.Scale}}
	}
	e := market.Event{Kind: market.KindTrade, Handle: p.handles[k], Price: 100 * market.Scale, Size: market.Scale}
	switch p.rng.IntN(4) {
	case 0:
		e = market.Event{Kind: market.KindSnapshot, Handle: p.handles[k], Bids: level(90 + p.rng.IntN(9)), Asks: level(101 + p.rng.IntN(9))}
	case 1:
		e = market.Event{Kind: market.KindStatus, Handle: p.handles[k], Phase: []market.Phase{market.Open, market.Halt}[p.rng.IntN(2)]}
	default:
		p.seen[p.names[k]]++
	}
	if err := p.hub.Publish([]market.Event{e}); err != nil {
		p.t.Fatal(err)
	}
}

// compare lets both clients read, and compares what they get and what they have paid.
func (p *pair) compare() {
	p.t.Helper()
	var got [2][]string
	for i := range p.sides {
		for p.shard.Turn(); p.shard.Next() != nil; {
		}
		x := &p.sides[i]
		got[i] = byInstrument(x.take())
		x.log = append(x.log, got[i]...)
		for _, text := range got[i] {
			if _, rest, ok := strings.Cut(text, `"position":"`); ok {
				p.position, _, _ = strings.Cut(rest, `"`)
			}
		}
	}
	story := func(i int) string {
		log := p.sides[i].log
		return strings.Join(log[max(0, len(log)-40):], "\n")
	}
	if !slices.Equal(got[0], got[1]) {
		p.t.Fatalf("whole:\n%s\n\nin pieces:\n%s", story(0), story(1))
	}
	whole, pieces := p.owed()
	if whole > pieces+5 || pieces > whole+5 { // divisions round
		p.t.Fatalf("the whole costs %d, the pieces %d, after\n%s", whole, pieces, story(0))
	}
	p.sides[0].env.Spend("u0", p.now, max(0, pieces-whole))
	p.sides[1].env.Spend("u1", p.now, max(0, whole-pieces))
}

// byInstrument sorts the data between two answers by channel and instrument, with CaughtUp at the
// end. The order of data is specified only within each of them.
func byInstrument(texts []string) []string {
	const caughtUp = `{"type":"CaughtUp"`
	key := func(text string) string {
		if strings.HasPrefix(text, caughtUp) {
			return "~"
		}
		head, _, _ := strings.Cut(text, `","N":`)
		return head
	}
	data := func(text string) bool { return len(text) > 10 && text[10] == '"' || strings.HasPrefix(text, caughtUp) } // {"type":"T"
	for from := 0; from < len(texts); from++ {
		to := from
		for to < len(texts) && data(texts[to]) {
			to++
		}
		slices.SortStableFunc(texts[from:to], func(a, b string) int { return strings.Compare(key(a), key(b)) })
		from = to
	}
	return texts
}
