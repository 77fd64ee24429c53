package client

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/internal/engine/readahead"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
	"github.com/ruedahq/rueda/wire/stream"
)

const (
	writeTimeout = 10 * time.Second
	// An Alive mark comes every 15 s.
	streamSilence = 25 * time.Second
	resyncAgain   = 5 * time.Second
	removePause   = 100 * time.Millisecond // between two messages that remove identifiers
	unavailable   = 5 * time.Second        // until an identifier is requested again
	maxItems      = 300                    // in a message
	maxItemBytes  = 200                    // of an item, with its place in resume
)

// link is one connection. Two goroutines act for it, read and run. The one whose turn it is owns
// the engine and the fields that others do not use.
type link struct {
	*engine
	conn    *websocket.Conn
	network *readahead.Conn // below conn
	format  wire.Format
	base    string // URL
	access  Secret
	scope   []string
	began   time.Time
	workers sync.WaitGroup    // goroutines of the connection
	turn    chan struct{}     // full: it is the turn of a goroutine; capacity 1; before other locks
	reading bool              // it is the turn of the reader, which alone uses this
	ended   chan error        // what ended the reader; capacity 1
	changed chan struct{}     // there is something to write, or another deadline; capacity 1
	unsent  [][]byte          // messages to write
	ponged  bool              // unsent has a pong
	blocks  blocks            // of events
	raw     readahead.Blocks  // of messages, for the reader
	texts   readahead.Blocks  // of messages in MessagePack, as JSON
	results chan func() error // of other goroutines; run calls them
	decoder stream.Decoder
	message stream.Message
	found   []found // by Index of the decoder

	ready     bool                 // authenticated
	sent      map[item]*subscribed // what the gateway was asked for
	asks      map[string]*ask      // requests without an answer, by id
	lastID    int
	most      int // items in a message
	heartbeat time.Duration
	replays   int       // resumes that are not complete
	last      *Error    // which explains the close that follows
	arrived   time.Time // the newest frame, or when the program let the client read again
	data      time.Time // the newest message of the stream, likewise
	heard     time.Time // the newest message, for Health
	streamed  time.Time // the newest message of the stream, for Health
	pinged    time.Time // zero: no ping without an answer
	pingedAt  time.Time // the newest ping, for the round trip
	renewing  bool      // a goroutine renews the tokens
	removed   time.Time // the newest message that removed identifiers
	paused    time.Time // the set is not changed before
	again     time.Time // when to compare the sets again; zero: not needed
	resynced  map[item]time.Time
	listed    map[market.InstrumentID][]market.InstrumentID // instruments of patterns of books
	listing   bool                                          // a goroutine lists them
}

// frame is a message as it arrived, or the error that ended the connection.
type frame struct {
	data []byte
	at   time.Time
	err  error
}

// subscribed is an item of the set at the gateway.
type subscribed struct {
	options
	rejected bool
	resumed  bool // the gateway has accepted to resume it
}

// ask is a request without an answer.
type ask struct {
	items  []item
	remove bool
	resume bool
}

// message is a message to the gateway.
type message struct {
	Action    string   `json:"action"`
	ID        int      `json:"id,omitempty"`
	Token     string   `json:"token,omitempty"`
	Session   string   `json:"session,omitempty"`
	Slow      string   `json:"slow,omitempty"`
	Trades    []string `json:"trades,omitempty"`
	Quotes    []string `json:"quotes,omitempty"`
	OrderBook []string `json:"order_book,omitempty"`
	Status    []string `json:"status,omitempty"`
	Summary   []string `json:"summary,omitempty"`
	Bars      []string `json:"bars,omitempty"`
	Depth     *int     `json:"depth,omitempty"`
	Conflate  string   `json:"conflate,omitempty"`
	Alive     bool     `json:"alive,omitempty"`
	Resume    *resume  `json:"resume,omitempty"`
}

// resume is what the client has.
type resume struct {
	Epoch    string            `json:"epoch"`
	Position string            `json:"position,omitempty"`
	Trades   map[string]uint64 `json:"trades,omitempty"`
	Status   map[string]uint64 `json:"status,omitempty"`
	Bars     map[string]uint64 `json:"bars,omitempty"`
}

// run authenticates and acts until the connection ends, always with an error. read handles messages
// meanwhile.
func (l *link) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		l.workers.Wait()
		_ = l.flush(ctx) // what the reader had; it does not wait
	}()
	l.arrived, l.data = l.began, l.began
	slow := wire.SlowConflate
	if l.opts.Strict {
		slow = wire.SlowStrict
	}
	l.send(&message{Action: wire.ActionAuthToken, Token: string(l.access), Session: l.opts.Session, Slow: slow})
	l.network.Empty = func() { l.handOver(ctx) }
	l.workers.Go(func() { l.ended <- l.read(ctx) })
	l.workers.Go(func() { // the reader may wait in its turn until the gateway reads
		<-ctx.Done()
		_ = l.conn.CloseNow() // it may be closed already
	})
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(l.write(ctx))
		var act func() error
		select {
		case err := <-l.ended:
			act = func() error { return err }
		case <-l.changed:
			continue
		case <-l.wake:
			act = func() error { l.reconcile(ctx); return nil }
		case act = <-l.results:
		case <-timer.C:
			act = func() error { return l.runDeadlines(ctx) }
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := l.act(ctx, act); err != nil {
			return err
		}
	}
}

// act calls a function in the turn of run, and queues what it has for the program.
func (l *link) act(ctx context.Context, do func() error) error {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	err := do()
	if flushed := l.flush(ctx); err == nil {
		err = flushed
	}
	return err
}

// read reads frames and handles them until the connection ends, always with an error. Its turn
// lasts until it must wait for the network.
func (l *link) read(ctx context.Context) error {
	defer l.endTurn()
	forever := context.WithoutCancel(ctx) // run closes the connection
	for {
		l.raw.Free(minFree)
		free := l.raw
		data, err := l.readFrame(forever)
		l.beginTurn()
		if err := l.receive(ctx, frame{data, l.network.At, err}); err != nil {
			return err
		}
		if l.format == wire.Msgpack {
			l.raw = free // its text was a copy
		}
	}
}

func (l *link) readFrame(ctx context.Context) ([]byte, error) {
	_, r, err := l.conn.Reader(ctx)
	if err != nil {
		return nil, err
	}
	return l.raw.Message(r)
}

func (l *link) beginTurn() {
	if !l.reading {
		l.turn <- struct{}{}
		l.reading = true
	}
}

func (l *link) endTurn() {
	if l.reading {
		l.reading = false
		<-l.turn
	}
}

// handOver queues what was received for the program, and ends the turn of the reader.
func (l *link) handOver(ctx context.Context) {
	l.beginTurn()
	_ = l.flush(ctx) // run sees too that ctx has ended
	l.endTurn()
}

// send has run write a message, so that the reader never waits for that.
func (l *link) send(m *message) {
	data, err := json.Marshal(m)
	if err != nil {
		panic(err) // a message has texts and numbers only
	}
	l.unsent = append(l.unsent, data)
	signal(l.changed)
}

// write writes what was sent, and returns when runDeadlines is needed. If it fails, the reader
// reports what broke the connection.
func (l *link) write(ctx context.Context) time.Duration {
	for {
		l.turn <- struct{}{}
		list, wait := l.unsent, l.untilDeadline()
		l.unsent, l.ponged = nil, false
		<-l.turn
		if len(list) == 0 {
			return wait
		}
		for _, data := range list {
			ctx, cancel := context.WithTimeout(ctx, writeTimeout)
			_ = l.conn.Write(ctx, websocket.MessageText, data)
			cancel()
		}
	}
}

// post has run call a function in its turn, unless the connection ends before.
func (l *link) post(ctx context.Context, act func() error) {
	select {
	case l.results <- act:
	case <-ctx.Done():
	}
}

// untilDeadline returns when runDeadlines is needed.
func (l *link) untilDeadline() time.Duration {
	at := l.arrived.Add(l.heartbeat)
	if !l.ready {
		at = l.began.Add(dialTimeout)
	}
	if !l.pinged.IsZero() {
		at = l.pinged.Add(l.heartbeat)
	}
	wait := time.Until(at)
	if len(l.sent) > 0 {
		wait = min(wait, time.Until(l.data.Add(streamSilence)))
	}
	if !l.again.IsZero() {
		wait = min(wait, time.Until(l.again))
	}
	if l.ready && !l.renewing {
		wait = min(wait, l.tokens.untilRenewal())
	}
	return max(wait, 0)
}

// runDeadlines acts on what is due. The error ends the connection.
func (l *link) runDeadlines(ctx context.Context) error {
	now := time.Now()
	switch {
	case !l.ready && now.Sub(l.began) >= dialTimeout, !l.pinged.IsZero() && now.Sub(l.pinged) >= l.heartbeat:
		return errSilent
	case len(l.sent) > 0 && now.Sub(l.data) >= streamSilence:
		return errStale
	}
	if l.ready && l.pinged.IsZero() && now.Sub(l.arrived) >= l.heartbeat {
		l.pinged, l.pingedAt = now, now
		l.send(&message{Action: wire.ActionPing})
	}
	if !l.again.IsZero() && !now.Before(l.again) {
		l.again = time.Time{}
		l.reconcile(ctx)
	}
	if l.ready && !l.renewing && l.tokens.untilRenewal() <= 0 {
		l.renew(ctx)
	}
	return nil
}

// renew renews the tokens on another goroutine, and then authenticates the connection again.
func (l *link) renew(ctx context.Context) {
	l.renewing = true
	l.workers.Go(func() {
		t, err := l.tokens.get(ctx)
		l.post(ctx, func() error {
			l.renewing = false
			if err != nil || t.Access == l.access {
				return err
			}
			l.access = t.Access
			l.send(&message{Action: wire.ActionAuthToken, Token: string(t.Access)})
			return nil
		})
	})
}

// reconcile asks the gateway for what the program wants and does not have, and to stop the rest.
func (l *link) reconcile(ctx context.Context) {
	now := time.Now()
	if !l.ready {
		return
	}
	if now.Before(l.paused) {
		l.again = l.paused
		return
	}
	l.mu.Lock()
	want := maps.Clone(l.desired)
	l.mu.Unlock()
	for s, c := range l.series {
		if _, ok := want[s]; !ok && c.named && len(want) > 0 {
			want[s] = options{}
		}
	}
	l.expand(ctx, want)
	var remove []item
	for i := range l.sent {
		if _, ok := want[i]; !ok {
			remove = append(remove, i)
		}
	}
	switch {
	case len(remove) == 0:
	case l.replays > 0: // it would end their replay; CaughtUp comes back here
	case now.Sub(l.removed) < removePause:
		l.again = l.removed.Add(removePause)
	default:
		l.removed = now
		sortItems(remove)
		for part := range slices.Chunk(remove, l.most) {
			l.unsubscribe(part)
		}
	}
	l.add(want)
}

// group is a set of items that one message can subscribe to.
type group struct {
	options
	resume bool
}

// add subscribes to the items that the gateway does not have, or with other options.
func (l *link) add(want map[item]options) {
	groups := map[group][]item{}
	for i, o := range want {
		if s := l.sent[i]; s == nil || s.options != o {
			g := group{o, l.had[i] || l.restored || l.series[i] != nil && l.series[i].named}
			groups[g] = append(groups[g], i)
		}
	}
	l.restored = false
	keys := slices.SortedFunc(maps.Keys(groups), func(a, b group) int {
		return cmp.Or(cmp.Compare(a.depth, b.depth), cmp.Compare(a.conflate, b.conflate))
	})
	for _, g := range keys {
		sortItems(groups[g])
		for part := range slices.Chunk(groups[g], l.most) {
			l.subscribe(part, g)
		}
	}
}

func sortItems(items []item) {
	slices.SortFunc(items, func(a, b item) int {
		return cmp.Or(cmp.Compare(a.Channel, b.Channel), a.Instrument.Compare(b.Instrument))
	})
}

// list adds an item to its list, and returns its name.
func (m *message) list(i item) string {
	lists := [...]*[]string{&m.Trades, &m.Quotes, &m.OrderBook, &m.Status, &m.Summary, &m.Bars}
	name := string(i.Channel.Append(nil, i.Instrument))
	to := lists[min(i.Channel, wire.Bars)]
	*to = append(*to, name)
	return name
}

func (l *link) subscribe(items []item, g group) {
	m := &message{Action: wire.ActionSubscribe, Alive: true, Conflate: g.conflate}
	r := &resume{Epoch: l.epoch, Position: l.position}
	replays := false
	for _, i := range items {
		name := m.list(i)
		l.sent[i] = &subscribed{options: g.options}
		if i.Channel == wire.OrderBook {
			m.Depth = &g.depth
		}
		if !i.Channel.Replays() {
			continue
		}
		replays = true
		if c := l.series[i]; c != nil && c.known && !i.Instrument.IsPattern() {
			r.add(i.Channel, name, c.n)
		}
	}
	resumes := g.resume && replays && l.epoch != "" && (r.Position != "" || r.Trades != nil || r.Status != nil || r.Bars != nil)
	if resumes {
		m.Resume = r
		l.replays++
	}
	l.ask(m, &ask{items: items, resume: resumes})
}

// add adds the newest N of a series.
func (r *resume) add(c wire.Channel, name string, n uint64) {
	to := &r.Bars
	switch c {
	case wire.Trades:
		to = &r.Trades
	case wire.Status:
		to = &r.Status
	}
	if *to == nil {
		*to = map[string]uint64{}
	}
	(*to)[name] = n
}

func (l *link) unsubscribe(items []item) {
	m := &message{Action: wire.ActionUnsubscribe}
	for _, i := range items {
		m.list(i)
		delete(l.sent, i)
		delete(l.had, i)
	}
	l.ask(m, &ask{items: items, remove: true})
}

// ask sends a request that has an answer.
func (l *link) ask(m *message, a *ask) {
	l.lastID++
	m.ID = l.lastID
	l.asks[strconv.Itoa(m.ID)] = a
	l.send(m)
}

// covered reports whether an item of the set includes a series. The item except does not count.
func (l *link) covered(s stream.Series, except *item) bool {
	includes := func(i item) bool {
		sent := l.sent[i]
		return sent != nil && !sent.rejected && (except == nil || *except != i)
	}
	if includes(s) {
		return true
	}
	for i := range l.sent {
		if i.Channel == s.Channel && i.Instrument.IsPattern() && i.Instrument.Matches(s.Instrument) && includes(i) {
			return true
		}
	}
	return false
}

// wanted returns a function that reports whether the desired set includes a series. The caller
// holds the lock.
func (l *link) wanted() func(stream.Series) bool {
	var patterns []item
	for i := range l.desired {
		if i.Instrument.IsPattern() {
			patterns = append(patterns, i)
		}
	}
	return func(s stream.Series) bool {
		_, ok := l.desired[s]
		return ok || slices.ContainsFunc(patterns, func(i item) bool { return i.Channel == s.Channel && i.Instrument.Matches(s.Instrument) })
	}
}

// prune forgets, at the beginning of a connection, what the program has removed from the set since
// the last one.
func (l *link) prune() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.restored {
		return // the set may not be complete yet
	}
	wanted := l.wanted()
	removed := func(s stream.Series) bool { return !wanted(s) }
	maps.DeleteFunc(l.had, func(i item, _ bool) bool { _, ok := l.desired[i]; return !ok })
	for s, c := range l.series {
		if removed(s) {
			l.drop(s, c)
		}
	}
	maps.DeleteFunc(l.books, func(s stream.Series, _ *Book) bool { return removed(s) })
}

// forget drops the progress of what an item covered alone.
func (l *link) forget(i item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	wanted := l.wanted()
	for s, c := range l.series {
		// What is wanted may wait for a limit, and is resumed then.
		if s.Channel == i.Channel && i.Instrument.Matches(s.Instrument) && !l.covered(s, &i) && !wanted(s) {
			l.drop(s, c)
		}
	}
	if i.Channel != wire.OrderBook {
		return
	}
	for s := range l.books {
		if i.Instrument.Matches(s.Instrument) && !l.covered(s, &i) {
			delete(l.books, s)
		}
	}
}

// resync requests a new snapshot of a book.
func (l *link) resync(id market.InstrumentID) {
	i := item{Channel: wire.OrderBook, Instrument: id}
	now := time.Now()
	if now.Sub(l.resynced[i]) < resyncAgain {
		return
	}
	l.resynced[i] = now
	m := &message{Action: wire.ActionResync}
	for sent := range l.sent {
		if sent.Channel == wire.OrderBook && sent.Instrument.Matches(id) && (l.sent[i] == nil || sent == i) {
			m.list(sent)
		}
	}
	if m.OrderBook != nil {
		l.ask(m, &ask{})
	}
}
