package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/client"
)

// Instruments of the conversations.
const (
	ggal24  = "GGAL|BYMA|24hs"
	ggalCI  = "GGAL|BYMA|CI"
	al30CI  = "AL30|BYMA|CI"
	fakeCI  = "FAKE|SIM|CI"
	indexCI = "INDEX|BYMA|CI" // without a book
)

// Config has the gateway under test.
type Config struct {
	URL string
	// Demo logs in as a user with the rights to all data and patterns, as often as it is called.
	Demo func() (*client.Client, error)
	// Basic logs in as a user with quotes only and without patterns; nil: there is none.
	Basic func() (*client.Client, error)

	// Feed is the address of a listener for JSON lines (docs/feeds.md), where conversations publish
	// events of instruments of their own; "": there is none.
	Feed      string
	FeedToken string // "": the listener checks none
	// Users changes users, for conversations about rights; nil: they are not run.
	Users Users
	// Login logs in as a user that was added by Users.
	Login func(username, password string) (*client.Client, error)
}

// Gateway is a gateway under test, with what the conversations need of it.
type Gateway struct {
	stream      string            // URL
	rest        string            // URL
	tokens      map[string]login  // by their names in conversations
	instruments map[string]string // in place of those of the conversations
	market      string            // in place of BYMA
	epoch       string            // in place of e1
	maxMessage  int               // bytes that a client may send in a message
	dev         bool              // clients may request faults

	feed, feedToken string
	users           Users
	open            func(username, password string) (*client.Client, error)
	run             string // part of names, other than those of earlier runs
	last            atomic.Int64
}

// name returns a name for what a conversation adds to the gateway: up to 12 characters.
func (g *Gateway) name() string { return g.run + strconv.FormatInt(g.last.Add(1), 36) }

// Open logs in, and chooses instruments of the gateway. The logins last as long as the gateway lets
// them.
func Open(ctx context.Context, c Config) (*Gateway, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, err
	}
	g := &Gateway{
		tokens: map[string]login{}, instruments: map[string]string{}, run: rand.Text()[:6],
		feed: c.Feed, feedToken: c.FeedToken, users: c.Users, open: c.Login,
	}
	u.Path = strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/stream")
	g.rest = u.String()
	u.Scheme = strings.Replace(u.Scheme, "http", "ws", 1)
	u.Path += "/stream"
	g.stream = u.String()
	demo, err := c.Demo()
	if err != nil {
		return nil, err
	}
	defer demo.Close()
	if err := g.login(ctx, "demo", demo); err != nil {
		return nil, err
	}
	for name, open := range map[string]func() (*client.Client, error){"demo2": c.Demo, "revoked": c.Demo, "basic": c.Basic} {
		if open == nil {
			continue
		}
		other, err := open()
		if err != nil {
			return nil, err
		}
		defer other.Close()
		if err := g.login(ctx, name, other); err != nil {
			return nil, err
		}
		if name == "revoked" {
			if err := other.Logout(ctx); err != nil {
				return nil, fmt.Errorf("revoke a login: %w", err)
			}
		}
	}
	if err := g.choose(ctx, demo); err != nil {
		return nil, err
	}
	return g, g.probe(ctx)
}

// probe reads the epoch, the limit of messages, and whether clients may request faults.
func (g *Gateway) probe(ctx context.Context) error {
	t := &talk{gateway: g, clients: map[string]*peer{}, now: time.Now()}
	defer t.end()
	c, err := t.connect(ctx, "", "")
	if err != nil {
		return err
	}
	var m struct {
		Reason, Epoch string
		Limits        struct {
			MessageBytes int `json:"message_bytes"`
		}
	}
	for _, text := range []string{`{"action":"auth_token","token":"demo"}`, `{"action":"subscriptions"}`, `{"action":"sim"}`} {
		if err := c.say(ctx, t.translate(text, true)); err != nil {
			return err
		}
		e, err := t.next(c)
		if err == nil && e.err != nil {
			err = errors.New(e.String())
		}
		if err == nil {
			err = json.Unmarshal([]byte(e.text), &m)
		}
		if err != nil {
			return fmt.Errorf("the answer to %s: %w", text, err)
		}
	}
	g.epoch, g.maxMessage, g.dev = m.Epoch, m.Limits.MessageBytes, m.Reason == "bad_field"
	return nil
}

func (g *Gateway) login(ctx context.Context, name string, c *client.Client) error {
	t, err := c.Login(ctx)
	if err != nil {
		return fmt.Errorf("log in for the token %s: %w", name, err)
	}
	g.tokens[name] = login{tokens: t}
	return nil
}

// choose chooses instruments in place of those of the conversations: themselves, if the gateway has
// them.
func (g *Gateway) choose(ctx context.Context, c *client.Client) error {
	var all []client.Instrument
	for in, err := range c.Instruments(ctx, client.Filter{}) {
		if err != nil {
			return fmt.Errorf("list the instruments: %w", err)
		}
		all = append(all, in)
		if id := in.ID.String(); id == ggal24 || id == ggalCI || id == al30CI || id == fakeCI {
			g.put(id, id)
			if id != fakeCI {
				g.market = in.ID.Market
			}
		}
	}
	for i := range all {
		in := &all[i]
		id := in.ID.String()
		if g.market == "" {
			g.market = in.ID.Market
		}
		switch hasBook := slices.Contains(in.Channels, "order_book"); {
		case !hasBook && in.ID.Market == g.market:
			g.put(indexCI, id)
		case !hasBook:
		case in.ID.Market != g.market:
			g.put(fakeCI, id)
		case g.instruments[ggal24] == "":
			g.put(ggal24, id)
		case g.instruments[al30CI] == "":
			g.put(al30CI, id)
		default:
			g.put(ggalCI, id)
		}
	}
	if g.instruments[ggal24] == "" {
		return errors.New("the user has no right to an instrument with a book")
	}
	return nil
}

// put chooses an instrument, if none was chosen before.
func (g *Gateway) put(name, id string) {
	if g.instruments[name] == "" {
		g.instruments[name] = id
	}
}

// header returns the header of a handshake with a Bearer token, empty without one.
func (t *talk) header(token string) http.Header {
	h := http.Header{"User-Agent": {"rueda-conformance"}}
	if token != "" {
		if known := t.token(token); known != "" {
			token = known
		}
		h.Set("Authorization", "Bearer "+token)
	}
	return h
}

// refresh renews the tokens of a login over REST.
func (g *Gateway) refresh(ctx context.Context, name string) error {
	l := g.tokens[name]
	body, err := json.Marshal(map[string]string{"grant_type": "refresh_token", "refresh_token": string(l.tokens.Refresh)})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.rest+"/auth/token", bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("refresh the tokens: %w", err)
	}
	defer answer.Body.Close()
	var data struct {
		Data struct {
			Refresh client.Secret `json:"refresh_token"`
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&data); err != nil {
		return fmt.Errorf("refresh the tokens: %s: %w", answer.Status, err)
	}
	if data.Data.Refresh == "" {
		return fmt.Errorf("refresh the tokens: %s, without a refresh_token", answer.Status)
	}
	l.tokens.Refresh = data.Data.Refresh
	g.tokens[name] = l
	return nil
}
