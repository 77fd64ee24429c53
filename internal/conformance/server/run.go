package server

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/wire"
)

const (
	// tolerance is how late a message may come, and early is how early, of a real network.
	tolerance = 5 * time.Second
	early     = time.Second
	// settle is how long the end of a conversation waits for a message that no step names.
	settle = 200 * time.Millisecond
	// recovery is how long a user sends nothing, until the limit of messages is as at first.
	recovery  = 12 * time.Second
	rateTries = 3

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
		case c.duration() > tolerance:
			long = append(long, c)
		default:
			short = append(short, c)
		}
	}
	if err := runParallel(ctx, g, long, parallel, report); err != nil {
		return err
	}
	for i, c := range append(short, rates...) {
		one := run
		if i >= len(short) {
			one = runAgain
		}
		r := one(ctx, g, c)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := report(r); err != nil {
			return err
		}
	}
	return nil
}

// runAgain runs a conversation about the limit of messages, and again if it fails: it may not take
// long, and a busy machine is slow.
func runAgain(ctx context.Context, g *Gateway, c Conversation) (r Result) {
	for range rateTries {
		if sleep(ctx, recovery) != nil {
			return r
		}
		if r = run(ctx, g, c); r.Word != Failed {
			return r
		}
	}
	return r
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

// run runs a conversation.
func run(ctx context.Context, g *Gateway, c Conversation) Result {
	r := Result{Name: c.Name, Rule: c.Rule, Word: Passed}
	if r.Why = c.needs(g); r.Why != "" {
		r.Word, r.Why = NotRun, "needs "+r.Why
		return r
	}
	began := time.Now()
	t := &talk{gateway: g, clients: map[string]*peer{}, offers: map[string]string{}, now: began}
	defer t.end()
	for _, st := range c.steps {
		for range st.times {
			if err := t.step(ctx, st); err != nil {
				r.Word, r.Why, r.Line, r.Step, r.Took = Failed, err.Error(), st.line, st.verb+" "+st.rest, time.Since(began)
				return r
			}
		}
	}
	if err := t.quiet(settle); err != nil {
		r.Word, r.Why = Failed, "at the end: "+err.Error()
	}
	r.Took = time.Since(began)
	return r
}

// talk is a conversation in progress.
type talk struct {
	gateway *Gateway
	clients map[string]*peer
	offers  map[string]string
	now     time.Time // by the script
}

// peer is one connection of a client.
type peer struct {
	conn   *websocket.Conn
	format wire.Format
	done   chan struct{}
	more   chan struct{} // an event was added; capacity 1

	mu     sync.Mutex
	events []event
	silent bool
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

// step does what a line says.
func (t *talk) step(ctx context.Context, st step) error {
	switch st.verb {
	case "after":
		return t.after(ctx, st.rest)
	case "nothing":
		return t.quiet(settle)
	case "offer":
		t.offers[st.conn] = st.rest
		return nil
	case "connect":
		_, err := t.connect(ctx, st.conn, st.rest)
		return err
	}
	c := t.clients[st.conn]
	if c == nil {
		var err error
		if c, err = t.connect(ctx, st.conn, ""); err != nil {
			return err
		}
	}
	switch st.verb {
	case ">":
		return c.say(ctx, t.gateway.translate(st.rest, true))
	case "<":
		return t.expect(c, t.gateway.translate(st.rest, false))
	case "closed":
		return t.expectEnd(c, st.rest)
	case "login":
		token := st.rest
		if token == "" {
			token = "demo"
		}
		if err := c.say(ctx, t.gateway.translate(`{"action":"auth_token","token":"`+token+`"}`, true)); err != nil {
			return err
		}
		return t.expect(c, `{"type":"Success","code":200,...}`)
	case "send":
		return c.sendOther(ctx, st.rest)
	case "silent":
		c.mu.Lock()
		defer c.mu.Unlock()
		c.silent = true
		return nil
	}
	delete(t.clients, st.conn) // hang up
	c.close()
	return nil
}

// connect opens a connection and replaces the one of that name.
func (t *talk) connect(ctx context.Context, name, bearer string) (*peer, error) {
	offer, deflate := strings.CutSuffix(t.offers[name], "deflate")
	c := &peer{done: make(chan struct{}), more: make(chan struct{}, 1)}
	o := &websocket.DialOptions{HTTPHeader: t.gateway.header(bearer)}
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
	conn, _, err := websocket.Dial(dial, t.gateway.stream, o) //nolint:bodyclose // the library closes it
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
}

func (c *peer) close() {
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
			if err != nil || silent && isPing || !isPing && !isMarket(text) {
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
func (c *peer) sendOther(ctx context.Context, what string) error {
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
	n, err := strconv.Atoi(word)
	if err != nil {
		return fmt.Errorf("send %s: %w", what, err)
	}
	return c.conn.Write(ctx, websocket.MessageText, []byte(strings.Repeat(" ", n)))
}

// after lets time pass.
func (t *talk) after(ctx context.Context, text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	t.now = time.Now().Add(d) // the steps before took a moment
	return sleep(ctx, d)
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
	timer := time.NewTimer(tolerance)
	defer timer.Stop()
	for {
		c.mu.Lock()
		if len(c.events) > 0 {
			e := c.events[0]
			c.events = c.events[1:]
			c.mu.Unlock()
			if before := t.now.Sub(e.at); before > early {
				return e, fmt.Errorf("it came %s early: %s", before.Round(time.Millisecond), e)
			}
			return e, nil
		}
		c.mu.Unlock()
		select {
		case <-c.more:
		case <-timer.C:
			return event{}, errors.New("nothing came")
		}
	}
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
	text, err := differs(pattern, e.text)
	if err == nil && text != "" {
		err = fmt.Errorf("%s: got %s", text, e)
	}
	return err
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
