package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

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
}

// Gateway is a gateway under test, with what the conversations need of it.
type Gateway struct {
	stream      string            // URL
	tokens      map[string]string // by their names in conversations
	instruments map[string]string // in place of those of the conversations
	market      string            // in place of BYMA
}

// Open logs in, and chooses instruments of the gateway. The logins last as long as the gateway lets
// them.
func Open(ctx context.Context, c Config) (*Gateway, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, err
	}
	u.Scheme = strings.Replace(u.Scheme, "http", "ws", 1)
	u.Path = strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/stream") + "/stream"
	g := &Gateway{stream: u.String(), tokens: map[string]string{}, instruments: map[string]string{}}
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
	return g, g.choose(ctx, demo)
}

func (g *Gateway) login(ctx context.Context, name string, c *client.Client) error {
	t, err := c.Login(ctx)
	if err != nil {
		return fmt.Errorf("log in for the token %s: %w", name, err)
	}
	g.tokens[name] = string(t.Access)
	return nil
}

// choose chooses instruments in place of those of the conversations.
func (g *Gateway) choose(ctx context.Context, c *client.Client) error {
	for in, err := range c.Instruments(ctx, client.Filter{}) {
		if err != nil {
			return fmt.Errorf("list the instruments: %w", err)
		}
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

// translate replaces the names of a conversation by those of the gateway, and tokens if with is
// true.
func (g *Gateway) translate(text string, withTokens bool) string {
	const mark = "\x00"
	var pairs []string
	for name, id := range g.instruments {
		pairs = append(pairs, name, strings.ReplaceAll(id, "|", mark))
	}
	if withTokens {
		for name, token := range g.tokens {
			pairs = append(pairs, `"token":"`+name+`"`, `"token":"`+token+`"`)
		}
	}
	text = strings.NewReplacer(pairs...).Replace(text)
	text = strings.ReplaceAll(text, "|BYMA|", mark+g.market+mark)
	return strings.ReplaceAll(text, mark, "|")
}

// header returns the header of a handshake with a Bearer token, empty without one.
func (g *Gateway) header(token string) http.Header {
	h := http.Header{"User-Agent": {"rueda-conformance"}}
	if token != "" {
		if known, ok := g.tokens[token]; ok {
			token = known
		}
		h.Set("Authorization", "Bearer "+token)
	}
	return h
}
