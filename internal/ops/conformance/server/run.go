package server

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/wire"
)

const (
	// tolerance is how late a message may come, and early is how early, of a real network.
	tolerance = 5 * time.Second
	early     = time.Second
	// settle is how long the end of a conversation waits for a message that no step names.
	settle = 200 * time.Millisecond
	// recovery is how long a user sends nothing, until the limit of messages is as at first.
	recovery = 12 * time.Second
	tries    = 3

	maxMessage = 16 << 20
)

// Result is the judgement about a conversation.
type Result struct {
	Name string        `json:"name"`
	Rule string        `json:"rule"`
	Word string        `json:"result"` // passed, failed or not run
	Why  string        `json:"why,omitempty"`
	Line int           `json:"line,omitempty"` // of the conversation
	Step string        `json:"step,omitempty"`
	Took time.Duration `json:"-"`
}

// Words of a Result.
const (
	Passed = "passed"
	Failed = "failed"
	NotRun = "not run"
)

// RunAll runs conversations and passes on each result as soon as it is there, by one goroutine at a
// time. Those that wait for long run first, some at the same time, then the others one after the
// other, because a gateway limits the messages of a user. Those about that limit are the last ones.
// RunAll returns the error of report or of ctx.
func RunAll(ctx context.Context, g *Gateway, all []Conversation, parallel int, report func(Result) error) error {
	var long, short, rates []Conversation
	for _, c := range all {
		switch {
		case c.needs(g) != "":
			if err := report(run(ctx, g, c)); err != nil {
				return err
			}
		case strings.HasPrefix(c.Name, "rate-"):
			rates = append(rates, c)
		case c.Duration() > tolerance:
			long = append(long, c)
		default:
			short = append(short, c)
		}
	}
	if err := runParallel(ctx, g, long, parallel, report); err != nil {
		return err
	}
	for _, c := range append(short, rates...) {
		r := run(ctx, g, c)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := report(r); err != nil {
			return err
		}
	}
	return nil
}

// runParallel runs some conversations at a time.
func runParallel(ctx context.Context, g *Gateway, all []Conversation, parallel int, report func(Result) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results, slots := make(chan Result), make(chan struct{}, parallel)
	var running sync.WaitGroup
	for _, c := range all {
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			results <- run(ctx, g, c)
		})
	}
	go func() {
		running.Wait()
		close(results)
	}()
	var err error
	for r := range results {
		if err == nil && ctx.Err() == nil {
			if err = report(r); err != nil {
				cancel() // the others end soon
			}
		}
	}
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// run runs a conversation, and again if one that depends on exact times fails, because a busy
// machine is slow.
func run(ctx context.Context, g *Gateway, c Conversation) Result {
	r := runOnce(ctx, g, c)
	if !c.isLive && !strings.HasPrefix(c.Name, "rate-") && c.Name != "rights-in-time" {
		return r
	}
	for try := 1; try < tries && r.Word == Failed && sleep(ctx, recovery) == nil; try++ {
		r = runOnce(ctx, g, c)
	}
	return r
}

// runOnce runs a conversation.
func runOnce(ctx context.Context, g *Gateway, c Conversation) Result {
	r := Result{Name: c.Name, Rule: c.Rule, Word: Passed}
	if r.Why = c.needs(g); r.Why != "" {
		r.Word, r.Why = NotRun, "needs "+r.Why
		return r
	}
	t := &talk{gateway: g, clients: map[string]*peer{}, offers: map[string]string{}, positions: map[string]string{}, last: map[string]int64{}}
	defer t.end()
	if err := t.begin(ctx, &c); err != nil {
		r.Word, r.Why = Failed, "before it began: "+err.Error()
		return r
	}
	began := t.now
	for _, st := range c.Steps {
		for range st.Times {
			if err := t.step(ctx, st); err != nil {
				r.Word, r.Why, r.Line, r.Step, r.Took = Failed, err.Error(), st.Line, st.Verb+" "+st.Rest, time.Since(began)
				return r
			}
		}
	}
	err := t.quiet(settle)
	if t.flood.Wait(); t.flooded != nil {
		err = t.flooded
	}
	if err != nil {
		r.Word, r.Why = Failed, "at the end: "+err.Error()
	}
	r.Took = time.Since(began)
	return r
}

// talk is a conversation in progress.
type talk struct {
	gateway   *Gateway
	producer  *producer // nil: it uses instruments of the gateway
	cast      *cast     // nil: it uses the logins of Config
	clients   map[string]*peer
	offers    map[string]string
	positions map[string]string // of the gateway, in place of those of the conversation
	last      map[string]int64  // N of the newest trade that a step many has read, by instrument
	now       time.Time         // by the script
	early     time.Duration     // how long before its time a message may come
	isAligned bool              // times of the script count from the beginning
	hasMarket bool              // market data is compared
	flooding  bool              // the producer publishes in the background, until the end
	flood     sync.WaitGroup
	flooded   error
}

// begin prepares users and instruments, and waits until the conversation may begin.
func (t *talk) begin(ctx context.Context, c *Conversation) (err error) {
	g := t.gateway
	t.early, t.hasMarket = early, c.ofWholeMarket()
	name := g.name()
	if c.ownInstruments(g) {
		if t.producer, err = newProducer(ctx, g.feed, g.feedToken, name, c); err != nil {
			return err
		}
		t.hasMarket = true
	}
	var limits broker.Limits
	for _, st := range c.Steps {
		word, value, _ := strings.Cut(st.Rest, " ")
		if st.Verb != "set" {
			continue
		}
		switch word {
		case "verify": // the gateway may be faster
			d, err := time.ParseDuration(value)
			if err != nil {
				return err
			}
			t.early += 2 * d
		case "connections":
			limits.Connections, err = strconv.Atoi(value)
		case "subscriptions":
			limits.Subscriptions, err = strconv.Atoi(value)
		}
		if err != nil {
			return err
		}
	}
	if c.ownUsers() {
		if t.cast, err = g.newCast(ctx, strings.ToLower(name), limits, t.market); err != nil {
			return err
		}
	}
	// Between pings, publishing takes a moment too.
	t.isAligned = t.producer != nil && slices.ContainsFunc(c.Steps, func(st step) bool { return st.Verb == "silent" })
	if d := c.alignment(); d > 0 {
		t.isAligned = true
		now := time.Now()
		if err := sleep(ctx, now.Truncate(d).Add(d).Sub(now)); err != nil {
			return err
		}
	}
	t.now = time.Now()
	return nil
}

// market returns a market in place of one of the conversation.
func (t *talk) market(name string) string {
	if name == "*" {
		return name
	}
	id := t.translate("X|"+name+"|CI", false)
	return strings.Split(id, "|")[1]
}

// token returns the access token with a name of the conversation, "" if there is none.
func (t *talk) token(name string) string {
	if t.cast != nil {
		if l := t.cast.logins[name]; l != nil {
			return string(l.tokens.Access)
		}
		return ""
	}
	return string(t.gateway.tokens[name].tokens.Access)
}

// translate replaces the names of a conversation by those of the gateway. sent means that the
// client sends the text, so that tokens, epochs and positions are replaced too.
func (t *talk) translate(text string, sent bool) string {
	const mark = "\x00"
	var pairs []string
	if t.producer == nil {
		for name, id := range t.gateway.instruments {
			pairs = append(pairs, name, strings.ReplaceAll(id, "|", mark))
		}
	}
	if sent {
		const before = `"token":"`
		if _, rest, ok := strings.Cut(text, before); ok {
			name, _, _ := strings.Cut(rest, `"`)
			if token := t.token(name); token != "" {
				pairs = append(pairs, before+name+`"`, before+token+`"`)
			}
		}
		for name, position := range t.positions {
			pairs = append(pairs, `"position":"`+name+`"`, `"position":"`+position+`"`)
		}
		pairs = append(pairs, `"epoch":"e1"`, `"epoch":"`+t.gateway.epoch+`"`)
	}
	text = strings.NewReplacer(pairs...).Replace(text)
	if t.producer != nil {
		return t.producer.markets.Replace(text)
	}
	text = strings.ReplaceAll(text, "|BYMA|", mark+t.gateway.market+mark)
	return strings.ReplaceAll(text, mark, "|")
}

// peer is one connection of a client.
type peer struct {
	conn   *websocket.Conn
	format wire.Format
	done   chan struct{}
	more   chan struct{} // an event was added; capacity 1

	hasMarket bool // market data is an event

	mu     sync.Mutex
	events []event
	silent bool
	paused chan struct{} // closed when the client reads again; nil: it reads
}

// event is a message, or the end of a connection.
type event struct {
	at   time.Time
	text string
	err  error
}

func (e event) String() string {
	if e.err == nil {
		return e.text
	}
	return closedText(e.err)
}

// closedText describes the end of a connection: its close code and reason.
func closedText(err error) string {
	var closed websocket.CloseError
	if errors.As(err, &closed) {
		return strings.TrimSpace(fmt.Sprintf("closed %d %s", int(closed.Code), closed.Reason))
	}
	return "closed 1006"
}

// step does what a line says. Events are collected until the next other step, so that they come
// together.
func (t *talk) step(ctx context.Context, st step) error {
	if t.producer != nil && !t.flooding {
		if isEvent, err := t.producer.event(st); isEvent || err != nil {
			return err
		}
		if err := t.producer.send(ctx); err != nil {
			return err
		}
	}
	if t.cast != nil {
		if isStep, err := t.cast.step(ctx, st); isStep || err != nil {
			return err
		}
	}
	switch st.Verb {
	case "set":
		return nil // begin has done it
	case "after":
		return t.after(ctx, st.Rest)
	case "nothing":
		return t.quiet(settle)
	case "offer":
		t.offers[st.Client] = st.Rest
		return nil
	case "connect":
		_, err := t.connect(ctx, st.Client, st.Rest)
		return err
	case "extend":
		return t.gateway.refresh(ctx, map[string]string{"f1 24h": "demo", "f2 24h": "demo2"}[st.Rest])
	case "flood":
		return t.publishMany(ctx, st)
	}
	c := t.clients[st.Client]
	if c == nil {
		var err error
		if c, err = t.connect(ctx, st.Client, ""); err != nil {
			return err
		}
	}
	return t.stepOf(ctx, c, st)
}

// stepOf does what a line about a client says.
func (t *talk) stepOf(ctx context.Context, c *peer, st step) error {
	switch st.Verb {
	case ">":
		return c.say(ctx, t.translate(st.Rest, true))
	case "<":
		return t.expect(c, t.translate(st.Rest, false))
	case "many":
		return t.expectMany(c, st.Rest)
	case "closed":
		return t.expectEnd(c, st.Rest)
	case "login":
		token := st.Rest
		if token == "" {
			token = "demo"
		}
		if err := c.say(ctx, t.translate(`{"action":"auth_token","token":"`+token+`"}`, true)); err != nil {
			return err
		}
		return t.expect(c, `{"type":"Success","code":200,...}`)
	case "send":
		return t.sendOther(ctx, c, st.Rest)
	case "silent":
		c.mu.Lock()
		defer c.mu.Unlock()
		c.silent = true
		return nil
	case "stop", "read":
		c.pause(st.Verb == "stop")
		return nil
	}
	delete(t.clients, st.Client) // hang up
	c.close()
	return nil
}

// connect opens a connection and replaces the one of that name.
func (t *talk) connect(ctx context.Context, name, bearer string) (*peer, error) {
	offer, deflate := strings.CutSuffix(t.offers[name], "deflate")
	c := &peer{done: make(chan struct{}), more: make(chan struct{}, 1), hasMarket: t.hasMarket}
	o := &websocket.DialOptions{HTTPHeader: t.header(bearer)}
	switch strings.TrimSpace(offer) {
	case "batch":
		c.format = wire.Batch
	case "msgpack":
		c.format = wire.Msgpack
	}
	if c.format != wire.JSON {
		o.Subprotocols = []string{c.format.Subprotocol()}
	}
	if deflate {
		o.CompressionMode = websocket.CompressionNoContextTakeover
	}
	dial, cancel := context.WithTimeout(ctx, tolerance)
	defer cancel()
	conn, _, err := websocket.Dial(dial, t.gateway.stream, o)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	if got := conn.Subprotocol(); len(o.Subprotocols) > 0 && got != o.Subprotocols[0] {
		_ = conn.CloseNow() // the error is more important
		return nil, fmt.Errorf("connect: the gateway chose the subprotocol %q, not %q", got, o.Subprotocols[0])
	}
	conn.SetReadLimit(maxMessage)
	c.conn = conn
	go c.read(context.WithoutCancel(ctx))
	if old := t.clients[name]; old != nil {
		old.close()
	}
	t.clients[name] = c
	return c, nil
}

func (t *talk) end() {
	for _, c := range t.clients {
		c.close()
	}
	t.flood.Wait()
	if t.producer != nil {
		t.producer.close()
	}
	if t.cast != nil {
		t.cast.close()
	}
}

// pause makes the client stop reading, or read again.
func (c *peer) pause(stop bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case stop && c.paused == nil:
		c.paused = make(chan struct{})
	case !stop && c.paused != nil:
		close(c.paused)
		c.paused = nil
	}
}

func (c *peer) close() {
	c.pause(false)
	_ = c.conn.CloseNow() // it may be closed already
	<-c.done
}

// read receives messages, and answers pings, until the connection ends.
func (c *peer) read(ctx context.Context) {
	defer close(c.done)
	for {
		kind, data, err := c.conn.Read(ctx)
		messages := []string{""}
		if err == nil {
			messages, err = unpack(c.format, kind, data)
		}
		at := time.Now()
		for _, text := range messages {
			c.mu.Lock()
			silent := c.silent
			isPing := text == wire.Ping
			if err != nil || silent && isPing || !isPing && (c.hasMarket || !isMarket(text)) {
				c.events = append(c.events, event{at, text, err})
			}
			c.mu.Unlock()
			if isPing && !silent {
				_ = c.say(ctx, `{"action":"pong"}`) // Read returns the end of the connection
			}
		}
		select {
		case c.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
		c.mu.Lock()
		paused := c.paused
		c.mu.Unlock()
		if paused != nil {
			<-paused
		}
	}
}

// isMarket reports whether a message is part of the stream that the gateway sends on its own.
func isMarket(text string) bool {
	var m struct{ Type string }
	_ = json.Unmarshal([]byte(text), &m) // a bad message is not one
	return len(m.Type) == 1 || m.Type == "Alive"
}

// unpack returns the messages of a frame as JSON texts.
func unpack(f wire.Format, kind websocket.MessageType, data []byte) ([]string, error) {
	if want := map[bool]websocket.MessageType{true: websocket.MessageBinary, false: websocket.MessageText}[f == wire.Msgpack]; kind != want {
		return []string{""}, errors.New("a frame of another kind than the format has")
	}
	if f == wire.Msgpack {
		text, err := wire.AppendUnpacked(nil, data)
		return []string{string(text)}, err
	}
	if f != wire.Batch {
		return []string{string(data)}, nil
	}
	var list []json.RawMessage
	err := json.Unmarshal(data, &list)
	all := make([]string, 0, len(list))
	for _, m := range list {
		all = append(all, string(m))
	}
	if len(all) == 0 {
		all = append(all, "")
	}
	return all, err
}

// say sends a message, in MessagePack if that was negotiated.
func (c *peer) say(ctx context.Context, text string) error {
	if c.format == wire.Msgpack {
		return c.conn.Write(ctx, websocket.MessageBinary, wire.AppendMsgpack(nil, []byte(text)))
	}
	return c.conn.Write(ctx, websocket.MessageText, []byte(text))
}

// sendOther sends what is not a message of the protocol.
func (t *talk) sendOther(ctx context.Context, c *peer, what string) error {
	word, rest, _ := strings.Cut(what, " ")
	switch word {
	case "text":
		return c.conn.Write(ctx, websocket.MessageText, []byte(rest))
	case "binary":
		return c.conn.Write(ctx, websocket.MessageBinary, []byte{1, 2, 3})
	case "hex":
		data, err := hex.DecodeString(strings.ReplaceAll(rest, " ", ""))
		if err != nil {
			return err
		}
		return c.conn.Write(ctx, websocket.MessageBinary, data)
	}
	if rest != "bytes" || t.gateway.maxMessage == 0 {
		return fmt.Errorf("send %s: the gateway names no limit", what)
	}
	// One byte more than it allows.
	return c.conn.Write(ctx, websocket.MessageText, []byte(strings.Repeat(" ", t.gateway.maxMessage+1)))
}

// after lets time pass.
func (t *talk) after(ctx context.Context, text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	if t.isAligned {
		t.now = t.now.Add(d)
	} else {
		t.now = time.Now().Add(d) // the steps before took a moment
	}
	return sleep(ctx, time.Until(t.now))
}

// sleep waits, or returns the error of the context.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// next returns the next event of a client.
func (t *talk) next(c *peer) (event, error) {
	e, ok := c.peek(tolerance)
	if !ok {
		return event{}, errors.New("nothing came")
	}
	c.drop()
	if before := t.now.Sub(e.at); before > t.early {
		return e, fmt.Errorf("it came %s early: %s", before.Round(time.Millisecond), e)
	}
	return e, nil
}

// expect compares the next event of a client with a pattern.
func (t *talk) expect(c *peer, pattern string) error {
	e, err := t.next(c)
	if err != nil {
		return err
	}
	if e.err != nil {
		return errors.New("got " + e.String())
	}
	text, err := differs(t.fill(pattern), e.text, t.cast != nil)
	if err == nil && text != "" {
		err = fmt.Errorf("%s: got %s", text, e)
	}
	if err == nil {
		t.learn(pattern, e.text)
	}
	return err
}

// fill puts the newest N that a step many has read in place of $last.
func (t *talk) fill(pattern string) string {
	for id, n := range t.last {
		pattern = strings.ReplaceAll(pattern, `"`+id+`":$last`, fmt.Sprintf(`"%s":%d`, id, n))
	}
	return pattern
}

// learn keeps the position of a message in place of that of the pattern.
func (t *talk) learn(pattern, message string) {
	_, name, ok := strings.Cut(pattern, `"position":"`)
	name, _, _ = strings.Cut(name, `"`)
	var m struct{ Position string }
	if ok && !strings.Contains(name, more) && json.Unmarshal([]byte(message), &m) == nil {
		t.positions[name] = m.Position
	}
}

// expectEnd compares the end of a connection with its close code and reason.
func (t *talk) expectEnd(c *peer, want string) error {
	e, err := t.next(c)
	if err == nil && (e.err == nil || e.String() != "closed "+want) {
		err = errors.New("got " + e.String())
	}
	return err
}

// quiet checks that nothing has come that no step has named.
func (t *talk) quiet(wait time.Duration) error {
	time.Sleep(wait)
	for name, c := range t.clients {
		c.mu.Lock()
		events := c.events
		c.mu.Unlock()
		if len(events) > 0 {
			return fmt.Errorf("%s got %s, which it should not", strings.TrimSpace("the client "+name), events[0])
		}
	}
	return nil
}
