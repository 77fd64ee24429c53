package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/feed/sim"
	"github.com/ruedahq/rueda/gateway"
)

// literalClient is a client that uses only what the given specification says.
type literalClient struct {
	http    *http.Client
	rest    string
	stream  string
	access  string
	refresh string // the first one; later ones are ignored
	trades  int
	pings   int
}

type literalToken struct {
	Success bool `json:"success"`
	Data    struct {
		AccessToken  string `json:"access_token"`
		TokenType    string `json:"token_type"`
		ExpiresIn    int    `json:"expires_in"`
		RefreshToken string `json:"refresh_token"`
	} `json:"data"`
}

func (c *literalClient) token(body string) (t literalToken, err error) {
	res, err := c.http.Post(c.rest+"/auth/token", "application/json", bytes.NewReader([]byte(body)))
	if err != nil {
		return t, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return t, err
	}
	if res.StatusCode != http.StatusOK {
		return t, fmt.Errorf("token endpoint: %s: %s", res.Status, text)
	}
	err = json.Unmarshal(text, &t)
	if err == nil && (!t.Success || t.Data.TokenType != "bearer" || t.Data.ExpiresIn != 86400 || t.Data.AccessToken == "") {
		err = fmt.Errorf("token endpoint: %s", text)
	}
	return t, err
}

func (c *literalClient) login() error {
	t, err := c.token(`{"grant_type":"password","username":"demo","password":"demo-password"}`)
	c.access, c.refresh = t.Data.AccessToken, t.Data.RefreshToken
	return err
}

func (c *literalClient) renew() error {
	t, err := c.token(`{"grant_type":"refresh_token","refresh_token":"` + c.refresh + `"}`)
	if err == nil {
		c.access = t.Data.AccessToken
	}
	return err
}

func (c *literalClient) accounts() error {
	req, err := http.NewRequest(http.MethodGet, c.rest+"/broker/accounts", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.access)
	res, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("accounts: %s", res.Status)
	}
	return nil
}

// follow reads the stream until ctx ends, as simply as possible: it has one struct for every
// message, treats the first frame as the answer to auth_token, and answers every Success with a
// subscribe.
func (c *literalClient) follow(ctx context.Context, instrument string) error {
	ws, _, err := websocket.Dial(ctx, c.stream, &websocket.DialOptions{HTTPClient: c.http})
	if err != nil {
		return err
	}
	defer ws.CloseNow()
	send := func(s string) error { return ws.Write(ctx, websocket.MessageText, []byte(s)) }
	if err := send(`{"action":"auth_token","token":"` + c.access + `"}`); err != nil {
		return err
	}
	for first := true; ; first = false {
		_, text, err := ws.Read(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if string(text) == `{"action":"ping"}` {
			c.pings++
			if err := send(`{"action":"pong"}`); err != nil && ctx.Err() == nil {
				return err
			}
			continue
		}
		var m struct {
			Type string  `json:"type"`
			Code int     `json:"code"`
			Msg  string  `json:"msg"`
			S    string  `json:"S"`
			P    float64 `json:"P"`
			Z    float64 `json:"Z"`
		}
		if err := json.Unmarshal(text, &m); err != nil {
			return fmt.Errorf("%w in %s", err, text)
		}
		if first && (m.Type != "Success" || m.Code != 200 || m.Msg != "Connected") {
			return fmt.Errorf("first frame is %s", text)
		}
		switch m.Type {
		case "Success":
			if err := send(`{"action":"subscribe","trades":["` + instrument + `"]}`); err != nil {
				return err
			}
		case "T":
			if m.S == "" || m.P <= 0 || m.Z <= 0 {
				return fmt.Errorf("trade %s", text)
			}
			c.trades++
		case "Error":
			return errors.New(string(text))
		}
	}
}

// TestLiteralClientForADay runs a literal client of the specification for 26 hours of virtual time.
// It refreshes once a day with its first refresh token and stays on one socket, whose deadline
// moves with each refresh.
func TestLiteralClientForADay(t *testing.T) {
	t.Parallel()
	followLiterally(t, 26*time.Hour)
}

// TestLiteralClientForAWeekE2E runs the same client for a week, without the race detector.
func TestLiteralClientForAWeekE2E(t *testing.T) {
	t.Parallel()
	followLiterally(t, 7*24*time.Hour)
}

func followLiterally(t *testing.T, length time.Duration) {
	const renewal = 23 * time.Hour
	synctest.Test(t, func(t *testing.T) {
		const interval = 15 * time.Second
		client, at := run(t, gateway.Config{
			Listener: newPipes(),
			Feeds:    []gateway.Feed{{Name: "metronome", Source: metronome{[]string{"GGAL|BYMA|24hs"}, interval}}},
		})
		c := &literalClient{http: client, rest: at.REST, stream: at.Stream}
		if err := c.login(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), length)
		defer cancel()
		followed := make(chan error, 1)
		go func() { followed <- c.follow(ctx, "GGAL|BYMA|24hs") }()
		renewals := 0
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(renewal):
				renewals++
				if err := errors.Join(c.renew(), c.accounts()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := <-followed; err != nil {
			t.Fatal(err)
		}
		want := int(length / interval)
		if c.trades < want-1 || c.trades > want+1 || c.pings < int(length/(20*time.Second))-1 || renewals != int(length/renewal) {
			t.Errorf("%d trades of %d, %d pings, %d renewals", c.trades, want, c.pings, renewals)
		}
	})
}

// TestLiteralClientOverASocket runs the same client over a real socket on the
// simulated market: a minute in full, a twentieth otherwise.
func TestLiteralClientOverASocket(t *testing.T) {
	t.Parallel()
	source, err := sim.New(sim.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	client, at := run(t, gateway.Config{
		Listen: "127.0.0.1:0",
		Feeds:  []gateway.Feed{{Name: "sim", Source: source}},
	})
	awaitMarket(t, client, at.REST)
	c := &literalClient{http: client, rest: at.REST, stream: at.Stream}
	if err := errors.Join(c.login(), c.accounts(), c.renew()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(count(60))*time.Second)
	defer cancel()
	if err := c.follow(ctx, "FAKE|SIM|CI"); err != nil {
		t.Fatal(err)
	}
	if c.trades == 0 {
		t.Error("no trade came")
	}
	t.Logf("figure: literal client over a socket: %d trades, %d pings in %d s", c.trades, c.pings, count(60))
}
