package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/internal/api/asyncapi/asyncapitest"
)

// numbered remembers the text of each number that any client received.
type numbered struct {
	mu    sync.Mutex
	texts map[string]string
}

// take records a message. It returns an error if the number was sent before with another text.
func (x *numbered) take(m *mixedFrame, text []byte) error {
	kind := m.Type
	switch kind {
	case "X", "C":
		kind = "T" // they share one sequence
	case "T", "H", "Q", "K":
	default:
		return nil
	}
	if m.R && kind != "K" {
		return nil // a snapshot, sent again
	}
	key := fmt.Sprint(kind, m.IV, " ", m.I, " ", m.N)
	x.mu.Lock()
	defer x.mu.Unlock()
	if was, ok := x.texts[key]; ok && was != string(text) {
		return fmt.Errorf("a number is given out twice:\n%s\n%s", was, text)
	}
	x.texts[key] = string(text)
	return nil
}

// mixedFrame has the fields of a message that a mixer needs.
type mixedFrame struct {
	frame
	ID int
	R  bool
	IV string
}

// mixer is a client that does everything that a client may do, over all kills.
type mixer struct {
	k    *killed
	rng  *rand.Rand
	seen map[string]uint64 // newest received N of trades, by instrument
	at   string            // a position that it had while it followed the pattern
	less map[string]bool   // instruments for which it had not received everything up to that position

	ws      *websocket.Conn
	frames  chan []byte
	id      int
	exact   map[string]bool
	pattern string            // of trades; "" while it follows none
	most    map[string]uint64 // largest first N that is allowed for a new subscription
	holed   map[string]bool   // any first N is allowed
	open    map[int]bool      // resumes that have not caught up
	loose   bool              // a part of the request is not subscribed and will be refused
	resumed int
}

// errKilled means that the gateway was killed.
var errKilled = errors.New("killed")

// mix acts at random until the gateway is killed.
func (m *mixer) mix(t *testing.T) {
	for {
		switch err := m.connection(t.Context()); {
		case err == nil: // it closed the connection itself, or was too slow
		case errors.Is(err, errKilled):
			return
		default:
			t.Errorf("kill %d: %v", m.k.kills, err)
			return
		}
	}
}

// connection opens one connection and resumes what the last one had.
func (m *mixer) connection(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var reader sync.WaitGroup
	defer reader.Wait()
	defer stop()
	ws, _, err := websocket.Dial(ctx, m.k.client.stream, &websocket.DialOptions{HTTPClient: m.k.client.http})
	if err != nil {
		return errKilled
	}
	defer ws.CloseNow()
	ws.SetReadLimit(8 << 20)
	m.ws, m.frames = ws, make(chan []byte, 1024)
	m.exact, m.pattern = map[string]bool{}, ""
	m.most, m.holed, m.open = map[string]uint64{}, map[string]bool{}, map[int]bool{}
	frames := m.frames
	reader.Go(func() {
		defer close(frames)
		for {
			_, text, err := ws.Read(ctx)
			if err != nil {
				return
			}
			select {
			case frames <- text:
			case <-ctx.Done():
				return
			}
		}
	})
	if err := m.ask(ctx, map[string]any{"action": "auth_token", "token": m.k.client.access}); err != nil {
		return err
	}
	for {
		if err := m.act(ctx); err != nil {
			if errors.Is(err, errLeft) {
				return nil
			}
			return err
		}
		if err := m.listen(ctx, time.Duration(m.rng.IntN(15))*time.Millisecond); err != nil {
			return err
		}
	}
}

// errLeft means that the client disconnected, or that the gateway closed a slow client.
var errLeft = errors.New("left")

// some returns a random part of a list.
func (m *mixer) some(list []string) []string {
	list = slices.Clone(list)
	m.rng.Shuffle(len(list), func(i, k int) { list[i], list[k] = list[k], list[i] })
	return list[:min(len(list), 1+m.rng.IntN(6))]
}

// act does one random action.
func (m *mixer) act(ctx context.Context) error {
	m.loose = false
	names, have := m.some(m.k.names), slices.Sorted(maps.Keys(m.exact))
	switch k := m.rng.IntN(20); {
	case k < 6:
		return m.subscribe(ctx, names, false)
	case k < 9 && len(have) > 0:
		gone := m.some(have)
		if err := m.ask(ctx, map[string]any{"action": "unsubscribe", "trades": gone}); err != nil {
			return err
		}
		for _, name := range gone {
			delete(m.exact, name)
		}
	case k < 12:
		return m.subscribe(ctx, names, true)
	case k < 14 && m.pattern == "":
		return m.follow(ctx)
	case k < 14:
		if err := m.ask(ctx, map[string]any{"action": "unsubscribe", "trades": []string{m.pattern}}); err != nil {
			return err
		}
		m.pattern = ""
	case k == 14:
		return m.ask(ctx, map[string]any{"action": "subscribe", "quotes": names, "order_book": names, "depth": 5, "status": names, "bars": names, "interval": "1s"})
	case k == 15:
		m.loose = true
		return m.ask(ctx, map[string]any{"action": "unsubscribe", "quotes": names, "order_book": names, "status": names})
	case k == 16:
		m.loose = true
		return m.ask(ctx, map[string]any{"action": "resync", "quotes": names, "order_book": names})
	case k == 17:
		return m.ask(ctx, map[string]any{"action": "subscriptions"})
	case k == 18 && m.rng.IntN(2) == 0:
		return errLeft
	}
	return nil
}

// followed reports whether the client is subscribed to the trades of an instrument.
func (m *mixer) followed(name string) bool {
	return m.exact[name] || m.pattern != "" && strings.Contains(name, "|"+strings.Split(m.pattern, "|")[1]+"|")
}

// subscribe adds instruments to the set or replaces it. Known instruments resume.
func (m *mixer) subscribe(ctx context.Context, names []string, replace bool) error {
	seen := map[string]uint64{}
	for _, name := range names {
		if m.followed(name) {
			continue
		}
		if n, ok := m.seen[name]; ok && m.rng.IntN(5) > 0 {
			seen[name], m.most[name] = n, n+1
			delete(m.holed, name)
			m.resumed++
		} else {
			m.holed[name] = true
		}
	}
	ask := map[string]any{"action": "subscribe", "trades": names}
	if len(seen) > 0 {
		ask["resume"] = map[string]any{"epoch": m.k.epochOf(), "trades": seen}
	}
	if replace {
		ask["replace"] = true
	}
	if err := m.ask(ctx, ask); err != nil {
		return err
	}
	if replace {
		m.exact, m.pattern = map[string]bool{}, ""
	}
	for _, name := range names {
		m.exact[name] = true
	}
	return nil
}

// follow subscribes to a market, from the position that it had when it last followed one.
func (m *mixer) follow(ctx context.Context) error {
	market := strings.Split(m.k.names[0], "|")[1]
	ask := map[string]any{"action": "subscribe", "trades": []string{"*|" + market + "|*"}}
	from := m.at
	if from != "" && m.rng.IntN(5) > 0 {
		ask["resume"] = map[string]any{"epoch": m.k.epochOf(), "position": from}
		m.resumed++
	} else {
		from = ""
	}
	for name, n := range m.seen {
		switch {
		case m.followed(name):
		case from != "" && !m.less[name]:
			m.most[name] = n + 1
			delete(m.holed, name)
		default:
			m.holed[name] = true
		}
	}
	if err := m.ask(ctx, ask); err != nil {
		return err
	}
	m.pattern = "*|" + market + "|*"
	return nil
}

// ask sends a message and reads until its answer.
func (m *mixer) ask(ctx context.Context, ask map[string]any) error {
	m.id++
	ask["id"] = m.id
	if ask["resume"] != nil {
		m.open[m.id] = true
	}
	text, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	if err := asyncapitest.CheckClient(text); err != nil {
		return err
	}
	if m.ws.Write(ctx, websocket.MessageText, text) != nil {
		return errKilled
	}
	for text := range m.frames {
		f, err := m.take(text)
		if err != nil {
			return m.cutOff(fmt.Errorf("%w; asked %v", err, ask))
		}
		if f.ID == m.id && f.Type != "CaughtUp" {
			return nil
		}
	}
	return errKilled
}

// listen reads messages for some time.
func (m *mixer) listen(ctx context.Context, long time.Duration) error {
	ctx, stop := context.WithTimeout(ctx, long)
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case text, ok := <-m.frames:
			if !ok {
				return errKilled
			}
			if _, err := m.take(text); err != nil {
				return m.cutOff(err)
			}
		}
	}
}

// cutOff returns errKilled instead of a syntax error in the last message of a connection. If the
// end of a connection cuts off a frame, the WebSocket library returns the part that it has.
func (m *mixer) cutOff(err error) error {
	var syntax *json.SyntaxError
	if _, more := <-m.frames; errors.As(err, &syntax) && !more {
		return errKilled
	}
	return err
}

// take checks a message.
func (m *mixer) take(text []byte) (f mixedFrame, err error) {
	if err := json.Unmarshal(text, &f); err != nil {
		return f, fmt.Errorf("%.300q of %d bytes: %w", text, len(text), err)
	}
	if err := m.k.numbers.take(&f, text); err != nil {
		return f, err
	}
	switch f.Type {
	case "Subscription", "CaughtUp":
		if len(f.Lost) > 0 {
			return f, fmt.Errorf("lost: %s", text)
		}
		if f.Type == "CaughtUp" {
			delete(m.open, f.ID)
		}
		if m.pattern != "" && f.Type == "CaughtUp" && len(m.open) == 0 {
			m.at, m.less = f.Position, maps.Clone(m.holed)
		}
	case "T", "X", "C":
		last, most := m.seen[f.I], m.most[f.I]
		switch {
		case m.holed[f.I]:
		case most > 0 && f.N > most:
			return f, fmt.Errorf("%s resumes with %d; the client has %d", f.I, f.N, most-1)
		case most == 0 && last > 0 && f.N != last+1:
			return f, fmt.Errorf("%s %d after %d", f.I, f.N, last)
		}
		delete(m.most, f.I)
		delete(m.holed, f.I)
		m.seen[f.I] = f.N
	case "Error":
		if f.Reason == "bad_field" && f.ID == m.id && m.loose {
			return f, nil
		}
		if f.Reason == "slow_client" {
			return f, errKilled // on a busy machine; the gateway is killed all the same
		}
		return f, fmt.Errorf("%s", text)
	}
	return f, nil
}
