// Command first-client prints each trade of some instruments once, or the range that is lost. It
// survives gaps, broken connections and restarts of the gateway.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
)

type client struct {
	url, username, password string
	instruments             []string
	print                   func(...any)
	epoch, position         string
	newest                  map[string]uint64 // N of the newest trade of each instrument
}

// message has the members that this client uses, of all messages and of the answer to a login.
type message struct {
	Type, Action, Epoch, Position, Reason, I string
	N                                        uint64
	P, Z                                     json.Number
	Lost                                     struct {
		Trades map[string]struct {
			From, To uint64
			Reason   string
		}
	}
	Data struct {
		AccessToken string `json:"access_token"`
	}
}

func main() {
	c := &client{url: "http://127.0.0.1:8080", username: "demo", password: "demo",
		instruments: []string{"GGAL|BYMA|24hs", "AL30|BYMA|CI"}, print: func(words ...any) { fmt.Println(words...) }}
	c.run(context.Background())
}

// run follows the stream until ctx ends. It waits before it reconnects, longer after each failure.
func (c *client) run(ctx context.Context) {
	for bound := time.Second; ctx.Err() == nil; bound = min(2*bound, 30*time.Second) {
		began := time.Now()
		c.print("disconnected:", c.follow(ctx))
		if time.Since(began) > time.Minute {
			bound = time.Second
		}
		select {
		case <-ctx.Done():
		case <-time.After(rand.N(bound)):
		}
	}
}

// follow logs in, connects, subscribes and handles messages until something fails.
func (c *client) follow(ctx context.Context) error {
	login := fmt.Sprintf(`{"grant_type":"password","username":%q,"password":%q}`, c.username, c.password)
	answer, err := http.Post(c.url+"/auth/token", "application/json", strings.NewReader(login))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var token message
	if err := json.NewDecoder(answer.Body).Decode(&token); err != nil || answer.StatusCode != http.StatusOK {
		return errors.Join(err, errors.New("login: "+answer.Status))
	}
	conn, _, err := websocket.Dial(ctx, strings.Replace(c.url, "http", "ws", 1)+"/stream", nil)
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(1 << 20)
	subscribe := map[string]any{"action": "subscribe", "trades": c.instruments, "alive": true}
	if c.epoch != "" {
		subscribe["resume"] = map[string]any{"epoch": c.epoch, "trades": c.newest, "position": c.position}
	}
	auth := map[string]string{"action": "auth_token", "token": token.Data.AccessToken, "session": "first-client"}
	err = errors.Join(wsjson.Write(ctx, conn, auth), wsjson.Write(ctx, conn, subscribe))
	for err == nil {
		var m message
		silence, cancel := context.WithTimeout(ctx, 30*time.Second) // an Alive comes every 15 s
		if err = wsjson.Read(silence, conn, &m); err == nil {
			err = c.handle(ctx, conn, &m)
		}
		cancel()
	}
	return err
}

// handle handles a message. After an error, the next connection resumes.
func (c *client) handle(ctx context.Context, conn *websocket.Conn, m *message) error {
	switch {
	case m.Action == "ping":
		return wsjson.Write(ctx, conn, map[string]string{"action": "pong"})
	case m.Type == "T" || m.Type == "X" || m.Type == "C":
		n, known := c.newest[m.I]
		if known && m.N > n+1 {
			return fmt.Errorf("gap in %s after %d", m.I, n)
		}
		if !known || m.N == n+1 { // otherwise it is a repetition
			c.newest[m.I] = m.N
			c.print(m.Type, m.I, m.N, m.P, m.Z)
		}
	case m.Type == "Subscription":
		if m.Epoch != c.epoch { // numbers begin again
			c.epoch, c.newest = m.Epoch, map[string]uint64{}
		}
		for id, lost := range m.Lost.Trades {
			c.print("lost", id, lost.From, lost.To, lost.Reason)
			if delete(c.newest, id); lost.To > 0 {
				c.newest[id] = lost.To
			}
		}
	case m.Type == "Error":
		return errors.New(m.Reason)
	}
	if m.Position != "" {
		c.position = m.Position
	}
	return nil
}
