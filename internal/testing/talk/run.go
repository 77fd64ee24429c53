package talk

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/api/asyncapi/asyncapitest"
	"github.com/ruedahq/rueda/internal/engine/session/testdata"
	"github.com/ruedahq/rueda/wire"
)

// Conn is a client's end of a connection, WebSocket or not.
type Conn interface {
	Send(text bool, msg []byte) error

	// Receive waits for the next message, which Unpack made of a frame. At the end of the
	// connection the error is a *Closed.
	Receive() (string, error)

	Close() error
}

// Staller is a Conn whose client can stop reading, so that output waits in the server.
type Staller interface {
	Stall(on bool)
}

// Closed is the end of a connection.
type Closed struct {
	Code   uint16 // of the close frame; 1006: there was none
	Reason string
}

func (c *Closed) Error() string { return fmt.Sprintf("closed %d %s", c.Code, c.Reason) }

// Host has the server under test.
type Host struct {
	// Format is the format that a client offers if the script has no offer step for it.
	Format wire.Format

	// Dial connects a client.
	Dial func(Offer) (Conn, error)

	// Settle waits until the work that a step has caused is done: synctest.Wait in a bubble.
	// Without it, the number of messages that a client receives before it stops reading may vary.
	// nil: Run does not wait.
	Settle func()

	// Tolerance is how late a message may arrive. A millisecond is enough in a bubble, where time
	// passes only while all goroutines wait.
	Tolerance time.Duration

	// RealClock means that time passes by itself, as with real sockets. The times and latencies in
	// messages are then not compared.
	RealClock bool
}

// Run runs the conversation in w.
func (s *Script) Run(t testing.TB, w *World, h Host) {
	t.Helper()
	r := &run{
		Host: h, world: w, now: time.Now(),
		clients: make(map[string]*client), formats: make(map[string]wire.Format),
	}
	defer r.end(t)
	acts := verbs()
	for i := range s.Steps {
		st := &s.Steps[i]
		for range st.Times {
			if err := acts[st.Verb](r, st); err != nil {
				t.Errorf("%s.talk:%d: %s %s\n\t%v", s.Name, st.Line, st.Verb, st.Rest, err)
				return
			}
			if h.Settle != nil {
				h.Settle()
			}
		}
	}
	if err := r.quiet(min(h.Tolerance, 50*time.Millisecond)); err != nil {
		t.Errorf("%s.talk: at the end: %v", s.Name, err)
	}
}

// run is a conversation in progress.
type run struct {
	Host
	world   *World
	clients map[string]*client
	formats map[string]wire.Format // that clients offer
	now     time.Time              // by the script
}

// client is one connection with the events that it has received.
type client struct {
	conn    Conn
	format  wire.Format
	done    chan struct{} // the reader has returned
	arrived chan struct{} // an event was received since the last check

	checks asyncapitest.Conversation

	mu     sync.Mutex
	events []event
	silent bool
}

type event struct {
	at   time.Time
	text string // of a message
	err  error  // of the end
}

func (e event) String() string {
	if e.err != nil {
		return e.err.Error()
	}
	return "< " + e.text
}

// read receives messages, and answers pings.
func (c *client) read() {
	defer close(c.done)
	for {
		text, err := c.conn.Receive()
		c.check(text, err)
		c.mu.Lock()
		silent := c.silent
		if err != nil || silent || text != wire.Ping {
			c.events = append(c.events, event{time.Now(), text, err})
		}
		c.mu.Unlock()
		select {
		case c.arrived <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
		if text == wire.Ping && !silent {
			_ = c.say([]byte(`{"action":"pong"}`)) // Receive returns the end of the connection
		}
	}
}

// check compares what the server sends with the AsyncAPI document.
func (c *client) check(text string, err error) {
	var end *Closed
	switch {
	case errors.As(err, &end):
		c.checks.Closed(end.Code, end.Reason)
	case strings.HasPrefix(text, "{"): // messages of the tests of this package need not be objects
		c.checks.Received([]byte(text))
	}
}

// say sends a message, in MessagePack if that was negotiated.
func (c *client) say(msg []byte) error {
	if bytes.HasPrefix(msg, []byte("{")) {
		c.checks.Sent(msg)
	}
	if c.format&^wire.Deflate == wire.Msgpack {
		return c.conn.Send(false, wire.AppendMsgpack(nil, msg))
	}
	return c.conn.Send(true, msg)
}

// next waits for the next event up to limit.
func (c *client) next(limit time.Duration) (event, bool) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		c.mu.Lock()
		if len(c.events) > 0 {
			e := c.events[0]
			c.events = c.events[1:]
			c.mu.Unlock()
			return e, true
		}
		c.mu.Unlock()
		select {
		case <-c.arrived:
		case <-timer.C:
			return event{}, false
		}
	}
}

func (r *run) client(name string) (*client, error) {
	if c := r.clients[name]; c != nil {
		return c, nil
	}
	return r.connect(name, "")
}

func (r *run) connect(name, bearer string) (*client, error) {
	offer := Offer{bearer, r.Format}
	if f, ok := r.formats[name]; ok {
		offer.Format = f
	}
	conn, err := r.Dial(offer)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	c := &client{conn: conn, format: offer.Format, done: make(chan struct{}), arrived: make(chan struct{}, 1)}
	go c.read()
	r.clients[name] = c
	return c, nil
}

// end closes the open connections and waits for the readers.
func (r *run) end(t testing.TB) {
	for _, c := range r.clients {
		if err := c.conn.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		<-c.done
		if err := c.checks.Err(); err != nil {
			t.Errorf("the AsyncAPI document: %v", err)
		}
	}
}

// expect returns the next event of a client, which must have arrived at the present time of the
// script.
func (r *run) expect(name string) (event, error) {
	c, err := r.client(name)
	if err != nil {
		return event{}, err
	}
	patience := r.Tolerance
	if r.RealClock {
		patience *= 5 // for a busy machine; it costs time only if no event arrives
	}
	e, ok := c.next(patience)
	if !ok {
		return e, errors.New("nothing came")
	}
	if early := r.now.Sub(e.at); early > 0 {
		return e, fmt.Errorf("came %v early: %v", early, e)
	}
	return e, nil
}

// quiet waits, and then checks that no event is left that no step has named.
func (r *run) quiet(wait time.Duration) error {
	time.Sleep(wait)
	for name, c := range r.clients {
		c.mu.Lock()
		events := c.events
		c.mu.Unlock()
		if len(events) > 0 {
			return fmt.Errorf("client %q: unexpected %v", name, events[0])
		}
	}
	return nil
}

// verbs returns the functions of the steps by name.
func verbs() map[string]func(*run, *step) error {
	all := map[string]func(*run, *step) error{
		">": (*run).sendText, "<": (*run).receive, "closed": (*run).closed,
		// The wait is short enough that it does not change the times of later steps.
		"nothing": func(r *run, _ *step) error { return r.quiet(r.Tolerance / 1000) },
		"after":   (*run).after, "login": (*run).login, "connect": (*run).connectStep, "offer": (*run).offer,
		"send": (*run).sendOther, "silent": (*run).silence,
		"stop": (*run).stall, "read": (*run).stall, "hang": (*run).hangUp,
	}
	for verb, act := range worldVerbs() {
		all[verb] = func(r *run, st *step) error { return act(r.world, strings.Fields(st.Rest)) }
	}
	return all
}

func (r *run) sendText(st *step) error {
	c, err := r.client(st.Client)
	if err != nil {
		return err
	}
	return c.say([]byte(st.Rest))
}

func (r *run) sendOther(st *step) error {
	c, err := r.client(st.Client)
	if err != nil {
		return err
	}
	what, rest, _ := strings.Cut(st.Rest, " ")
	n, bad := strconv.Atoi(what)
	switch {
	case what == "text":
		return c.conn.Send(true, []byte(rest))
	case st.Rest == "binary":
		return c.conn.Send(false, []byte{1, 2, 3})
	case what == "hex":
		msg, err := hex.DecodeString(strings.ReplaceAll(rest, " ", ""))
		if err != nil {
			return err
		}
		return c.conn.Send(false, msg)
	case bad == nil && rest == "bytes":
		return c.conn.Send(true, []byte(strings.Repeat(" ", n)))
	}
	return errors.New("send binary, send hex BYTES, send text TEXT, or send N bytes")
}

func (r *run) receive(st *step) error {
	e, err := r.expect(st.Client)
	if err != nil {
		return err
	}
	want, got := st.Rest, e.text
	if r.RealClock {
		want, got = blur(want), blur(got)
		got = forgiveDelay(want, got)
	}
	if e.err != nil || !testdata.Matches(want, got) {
		return fmt.Errorf("got %v", e)
	}
	return nil
}

// blur replaces all times and latencies of a message with fixed ones.
func blur(text string) string {
	text = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[0-9:.]*Z"`).ReplaceAllString(text, `"..."`)
	return regexp.MustCompile(`"D":\d+`).ReplaceAllString(text, `"D":0`)
}

// forgiveDelay returns got with the expires_in of want, if that of got is at most 10 s smaller,
// because time passes between the steps on a busy machine.
func forgiveDelay(want, got string) string {
	expires := regexp.MustCompile(`"expires_in":(\d+)`)
	w, g := expires.FindStringSubmatch(want), expires.FindStringSubmatch(got)
	if w == nil || g == nil {
		return got
	}
	expected, _ := strconv.Atoi(w[1]) // digits
	left, _ := strconv.Atoi(g[1])
	if left > expected || left < expected-10 {
		return got
	}
	return strings.Replace(got, g[0], w[0], 1)
}

func (r *run) closed(st *step) error {
	e, err := r.expect(st.Client)
	if err != nil {
		return err
	}
	var end *Closed
	if !errors.As(e.err, &end) || strings.TrimSpace(fmt.Sprintf("%d %s", end.Code, end.Reason)) != st.Rest {
		return fmt.Errorf("got %v", e)
	}
	return nil
}

func (r *run) after(st *step) error {
	d, err := time.ParseDuration(st.Rest)
	if err != nil {
		return err
	}
	r.now = r.now.Add(d)
	wait := time.Until(r.now)
	if r.RealClock {
		// The server's clocks were started slightly after the script's.
		wait += r.Tolerance / 20
	}
	time.Sleep(wait)
	return nil
}

func (r *run) login(st *step) error {
	token := st.Rest
	if token == "" {
		token = "demo"
	}
	if err := r.sendText(&step{Client: st.Client, Rest: `{"action":"auth_token","token":"` + token + `"}`}); err != nil {
		return err
	}
	return r.receive(&step{Client: st.Client, Rest: `{"type":"Success","code":200,"msg":"Connected",...}`})
}

func (r *run) connectStep(st *step) error {
	_, err := r.connect(st.Client, st.Rest)
	return err
}

// offer sets the format that later connections of the client offer.
func (r *run) offer(st *step) (err error) {
	r.formats[st.Client], err = parseOffer(st.Rest)
	return err
}

func (r *run) silence(st *step) error {
	c, err := r.client(st.Client)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.silent = true
	c.mu.Unlock()
	return nil
}

func (r *run) stall(st *step) error {
	c, err := r.client(st.Client)
	if err != nil {
		return err
	}
	s, ok := c.conn.(Staller)
	if !ok {
		return errors.New("this connection cannot stop reading")
	}
	s.Stall(st.Verb == "stop")
	return nil
}

func (r *run) hangUp(st *step) error {
	c, err := r.client(st.Client)
	if err != nil {
		return err
	}
	delete(r.clients, st.Client)
	before := r.world.Env.Registry.Len()
	err = c.conn.Close()
	<-c.done
	if r.RealClock { // the server notices it slightly later; an unauthenticated connection is not counted
		for end := time.Now().Add(r.Tolerance / 10); r.world.Env.Registry.Len() >= before && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
	}
	return err
}
