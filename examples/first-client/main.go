// Command first-client prints each trade of two instruments once, and reports lost trades. It
// continues after gaps, broken connections and restarts of the gateway. Its arguments are the URL,
// the user and the password.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
)

type client struct {
	gateway, username, password, refresh string
	epoch, position                      string
	newest                               map[string]uint64 // N of the newest trade of each instrument
}

// message contains the members that this client reads, of answers with tokens and of messages.
type message struct {
	Type, Action, Reason, Epoch, Position, I string
	N                                        uint64
	P, Z                                     json.Number
	Lost                                     struct{ Trades map[string]json.RawMessage }
	Access                                   string `json:"access_token"`
	Refresh                                  string `json:"refresh_token"`
}

type object = map[string]any

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: first-client http://127.0.0.1:8080 demo demo")
		os.Exit(2)
	}
	c := &client{gateway: os.Args[1], username: os.Args[2], password: os.Args[3]}
	for {
		fmt.Println("disconnected:", c.follow(context.Background()))
		time.Sleep(rand.N(4 * time.Second))
	}
}

// token returns a new access token. It uses the refresh token if it has one, and otherwise the
// password.
func (c *client) token() (string, error) {
	grant := url.Values{"grant_type": {"password"}, "username": {c.username}, "password": {c.password}}
	if c.refresh != "" {
		grant = url.Values{"grant_type": {"refresh_token"}, "refresh_token": {c.refresh}}
	}
	res, err := http.PostForm(c.gateway+"/oauth/token", grant)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	var m message
	err = json.NewDecoder(res.Body).Decode(&m)
	if c.refresh = m.Refresh; m.Access == "" {
		err = errors.Join(err, errors.New("log in: "+res.Status))
	}
	return m.Access, err
}

// follow connects, subscribes and handles messages. It returns the first error.
func (c *client) follow(ctx context.Context) error {
	token, err := c.token()
	if err != nil {
		return err
	}
	conn, _, err := websocket.Dial(ctx, c.gateway+"/stream", nil)
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }()
	subscribe := object{"action": "subscribe", "trades": []string{"GGAL|BYMA|24hs", "AL30|BYMA|CI"}, "alive": true}
	if c.epoch != "" {
		subscribe["resume"] = object{"epoch": c.epoch, "trades": c.newest, "position": c.position}
	}
	err = errors.Join(wsjson.Write(ctx, conn, object{"action": "auth_token", "token": token}), wsjson.Write(ctx, conn, subscribe))
	for err == nil {
		var m message
		silence, cancel := context.WithTimeout(ctx, 30*time.Second) // an Alive comes every 15 s
		err = wsjson.Read(silence, conn, &m)
		cancel()
		switch n := c.newest[m.I]; {
		case m.Action == "ping":
			err = wsjson.Write(ctx, conn, object{"action": "pong"})
		case m.Type == "Error":
			err = errors.New(m.Reason)
		case m.Type == "Subscription":
			if m.Epoch != c.epoch { // numbers begin again
				c.epoch, c.newest = m.Epoch, map[string]uint64{}
			}
			for id, lost := range m.Lost.Trades {
				fmt.Printf("lost %s %s\n", id, lost)
				delete(c.newest, id)
			}
		case n > 0 && m.N > n+1:
			err = fmt.Errorf("gap in %s after %d", m.I, n)
		case m.N > n: // otherwise it is a repetition, or no trade
			c.newest[m.I] = m.N
			fmt.Println(m.Type, m.I, m.N, m.P, m.Z)
		}
		if m.Position != "" {
			c.position = m.Position
		}
	}
	return err
}
