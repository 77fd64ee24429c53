package rest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/api/asyncapi/asyncapitest"
	"github.com/ruedahq/rueda/internal/api/rest"
	"github.com/ruedahq/rueda/internal/base/frame"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/internal/engine/socket"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// tableUser is a user with its token.
type tableUser struct {
	right  *tableRight
	access string
}

// rightsWorld is a gateway in a bubble. Its market had a batch of events yesterday (1), one this
// morning (2) and one just now (3). The next one (4) comes when all streams are open.
type rightsWorld struct {
	*gateway
	t        *testing.T
	listener *pipeListener
	env      *session.Env
	handles  []market.Handle
}

// publish publishes a batch of events of each level.
func (w *rightsWorld) publish(batch int64) {
	w.t.Helper()
	now, unit := time.Now().UnixNano(), market.Price(market.Scale)
	phase := []market.Phase{0, market.Halt, market.Pause, market.Suspended, market.Quoting}[batch]
	for _, h := range w.handles {
		price := market.Price(batch) * unit
		if err := w.hub.Publish([]market.Event{
			{Kind: market.KindStatus, Handle: h, Time: now, Phase: phase, Reason: "news"},
			{Kind: market.KindSnapshot, Handle: h, Time: now, Bids: []market.Level{{Price: price, Size: market.Scale}}, Asks: []market.Level{{Price: price + unit, Size: market.Scale}}},
			{Kind: market.KindTrade, Handle: h, Time: now, Price: price, Size: market.Scale},
		}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// newRightsWorld starts a gateway with its stream and users of all kinds.
func newRightsWorld(t *testing.T, rights []tableRight) (w *rightsWorld, stop func()) {
	t.Helper()
	j, err := journal.Open(t.Context(), journal.Config{Folder: t.TempDir(), BootID: "same", Epoch: "e1"})
	if err != nil {
		t.Fatal(err)
	}
	hub := hub.New(hub.Config{Journal: j, Delays: []time.Duration{tableDelay}, Markets: []market.Market{{ID: "M", Terms: []market.Term{{Name: "CI"}}}}})
	if err := hub.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	w = &rightsWorld{t: t, listener: newPipeListener()}
	w.env = &session.Env{Registry: &session.Registry{}, Version: "test", Connections: 1 << 20, PingInterval: time.Hour, MessagesPerSecond: 1 << 20}
	var sockets *socket.Server
	w.gateway = newGateway(t, func(c *rest.Config, _ *auth.Config) {
		w.env.Verify = func(ctx context.Context, token string) (*session.Identity, *wire.Fault) {
			id, err := c.Auth.Verify(ctx, token)
			if err != nil {
				return nil, &wire.Fault{Reason: wire.InvalidToken}
			}
			return &session.Identity{User: id.User.ID, Family: id.Family, Expires: id.Expires,
				Grants: session.Grants{Scopes: id.User.Scopes, Rights: id.User.Entitlements}}, nil
		}
		sockets = socket.New(socket.Config{Env: w.env, Hub: hub, Shards: 1, HandshakeBurst: 1 << 20})
		c.Hub, c.Journal, c.Stream, c.Connect, c.RequestsPerMinute = hub, j, sockets, sockets.Open, 1<<20
	})
	w.hub = hub
	scopes := []string{broker.ScopeRead, broker.ScopeDepth, broker.ScopeHistory}
	for i, r := range rights {
		name := "user" + strconv.Itoa(i)
		own := slices.DeleteFunc(slices.Clone(scopes), func(s string) bool { return s == r.missing })
		w.users.users[name] = broker.User{ID: name, Username: name, Scopes: own, Entitlements: r.rights}
		w.users.passwords[name] = name
	}
	for _, symbol := range []string{"A", "B"} {
		h, err := hub.Define(market.Instrument{ID: market.InstrumentID{Symbol: symbol, Market: "M", Term: "CI"}, StartsEmpty: true})
		if err != nil {
			t.Fatal(err)
		}
		w.handles = append(w.handles, h)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 3)
	go func() { done <- sockets.Run(ctx) }()
	go func() { done <- hub.Run(ctx) }()
	go func() { done <- j.Run(ctx) }()
	stopServer := w.serveOn(t, w.listener)
	stop = func() {
		cancel()
		stopServer()
		if err := errors.Join(<-done, <-done, <-done, j.Close()); err != nil {
			t.Error(err)
		}
	}
	time.Sleep(12 * time.Hour)
	w.publish(1)
	time.Sleep(26 * time.Hour)
	w.publish(2)
	time.Sleep(2 * time.Hour)
	w.publish(3)
	time.Sleep(90 * time.Second)
	return w, stop
}

// get requests a path of REST, to which it adds the instrument if it ends in "=". An answer without
// the newest batch is the outcome late.
func (w *rightsWorld) get(u *tableUser, path, expression, late string) func() string {
	if strings.HasSuffix(path, "=") {
		path += url.QueryEscape(u.right.instrument())
	}
	answer := w.gateway.get(path, u.access)
	outcome := refused
	switch batch := newest(answer.Body.String(), expression); {
	case answer.Code != http.StatusOK && answer.Code != http.StatusForbidden && answer.Code != http.StatusRequestEntityTooLarge:
		outcome = fmt.Sprintf("status %d: %s", answer.Code, answer.Body)
	case batch == 3, batch == 1: // just now, or yesterday where that was requested
		outcome = allowed
	case batch == 2:
		outcome = late
	case answer.Code == http.StatusOK && strings.Contains(path, "/market/export"):
		outcome = "an empty file: " + answer.Body.String()
	}
	return func() string { return outcome }
}

// received has the text that a stream has sent.
type received struct {
	mu   sync.Mutex
	text strings.Builder
}

func (r *received) add(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text.WriteString(text + "\n")
}

func (r *received) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// follow opens a stream. The outcome is "" while nothing shows what it is.
func (w *rightsWorld) follow(u *tableUser, face, level, when string) func() string {
	var got *received
	if face == "WebSocket" {
		got = w.dial(u, subscription(u, level, when))
	} else {
		got = w.events(u, face, level, when)
	}
	began := time.Now()
	return func() string {
		text := got.String()
		early := time.Since(began) < tableDelay
		only := regexp.MustCompile(`(?m)^.*"I":"`+regexp.QuoteMeta(u.right.instrument())+`[|"].*$`).FindAllString(text, -1)
		batch := newest(strings.Join(only, "\n"), markers(level))
		yesterday := strings.Contains(when, "yesterday")
		switch {
		case strings.Contains(text, `"lost"`) && strings.Contains(text, `"reason":"forbidden"`):
			if newest(strings.Join(only, "\n"), markers(level)) == 1 {
				return "lost rows were sent"
			}
			return trimmed
		case regexp.MustCompile(`"reason":"(forbidden|not_entitled|subscription_limit)"`).MatchString(text):
			if batch > 0 {
				return "refused data was sent"
			}
			return refused
		case batch >= 3 && early:
			if yesterday && !strings.Contains(text, "2000-01-01T12:00:00") {
				return "without the rows of yesterday"
			}
			return allowed
		case early:
			return ""
		case batch == 4:
			return delayed
		}
		return "nothing but " + text
	}
}

// subscription returns the subscribe message of a cell.
func subscription(u *tableUser, level, when string) string {
	id := u.right.instrument()
	msg := `{"action":"subscribe","` + levelChannel(level) + `":["` + id + `"]`
	switch level {
	case levelBook:
		msg += `,"depth":0`
	case levelBook5:
		msg += `,"depth":5`
	}
	switch when {
	case "since today's open":
		msg += `,"start":"open"`
	case "since yesterday":
		msg += `,"start":"2000-01-01T00:00:00Z"`
	case "resume from yesterday":
		msg += `,"resume":{"epoch":"EPOCH","` + levelChannel(level) + `":{"` + id + `":0}}`
	}
	return msg + "}"
}

// dial opens a WebSocket, which subscribes to A first if another instrument is requested, and then
// sends messages.
func (w *rightsWorld) dial(u *tableUser, send ...string) *received {
	epoch := w.hub.Epoch()
	c := w.listener.dial()
	w.t.Cleanup(func() { c.Close() })
	head := "GET /stream HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nAuthorization: Bearer " + u.access + "\r\n\r\n"
	if _, err := io.WriteString(c, head); err != nil {
		w.t.Fatal(err)
	}
	in := bufio.NewReader(c)
	if r, err := http.ReadResponse(in, nil); err != nil || r.StatusCode != http.StatusSwitchingProtocols {
		w.t.Fatalf("%v, %+v", err, r)
	}
	got := &received{}
	go func() {
		var b []byte
		for chunk := make([]byte, 4096); ; {
			n, err := in.Read(chunk)
			if err != nil {
				return
			}
			for b = append(b, chunk[:n]...); ; {
				first, payload, size := frame.Split(b)
				if size == 0 {
					break
				}
				if first == frame.Text {
					asyncapitest.Received(w.t, payload)
					got.add(string(payload))
				}
				b = b[size:]
			}
		}
	}()
	var messages []string
	if u.right.id != "" {
		messages = append(messages, `{"action":"subscribe","snapshot":false,"status":["A|M|CI"]}`)
	}
	for i, msg := range append(messages, send...) {
		if i > 0 {
			synctest.Wait() // the data for the message before is sent first
		}
		msg = strings.Replace(msg, "EPOCH", epoch, 1)
		if _, err := c.Write(frame.AppendMasked(nil, frame.Text, 0, []byte(msg))); err != nil {
			w.t.Fatal(err)
		}
	}
	return got
}

// events opens a stream over HTTP. If another instrument than A is requested, A comes first.
func (w *rightsWorld) events(u *tableUser, face, level, when string) *received {
	accept := map[string]string{"JSON lines": "application/x-ndjson", "server-sent events": "text/event-stream"}[face]
	query := levelChannel(level) + "="
	if u.right.id != "" {
		query += url.QueryEscape("A|M|CI") + ","
	}
	query += url.QueryEscape(u.right.instrument())
	switch level {
	case levelBook:
		query += "&depth=0"
	case levelBook5:
		query += "&depth=5"
	}
	switch when {
	case "since today's open":
		query += "&start=open"
	case "since yesterday":
		query += "&start=2000-01-01T00:00:00Z"
	}
	c := w.listener.dial()
	w.t.Cleanup(func() { c.Close() })
	head := "GET /market/stream?" + query + " HTTP/1.1\r\nHost: x\r\nAccept: " + accept + "\r\nAuthorization: Bearer " + u.access + "\r\n\r\n"
	if _, err := io.WriteString(c, head); err != nil {
		w.t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	got := &received{}
	go func() {
		lines := bufio.NewScanner(answer.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if data := strings.TrimPrefix(lines.Text(), "data: "); strings.HasPrefix(data, "{") && answer.StatusCode == http.StatusOK {
				asyncapitest.Received(w.t, []byte(data))
			}
			got.add(lines.Text())
		}
	}()
	return got
}
