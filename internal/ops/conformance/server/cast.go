package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/client"
)

// Users changes the users of the gateway under test.
type Users interface {
	Add(ctx context.Context, name, password string, r broker.Rights) error
	SetRights(ctx context.Context, name string, r broker.Rights) error
	// Logout ends all logins of a user.
	Logout(ctx context.Context, name string) error
}

// cast has the users of one conversation, and their logins.
type cast struct {
	gateway  *Gateway
	suffix   string        // of the names
	password string        // of all
	limits   broker.Limits // of users without their own
	market   func(string) string
	known    map[string]bool // users
	logins   map[string]*login
}

// login is a login of a user. The name in the conversation is that of its first token.
type login struct {
	client *client.Client
	family string
	tokens client.Tokens
}

// newCast returns the users that each conversation has. market returns a market in place of the one
// of a conversation.
func (g *Gateway) newCast(ctx context.Context, name string, limits broker.Limits, market func(string) string) (*cast, error) {
	c := &cast{gateway: g, suffix: "-" + name, password: rand.Text(), limits: limits, market: market, known: map[string]bool{}, logins: map[string]*login{}}
	all := broker.Rights{
		Scopes:       []string{broker.ScopeRead, broker.ScopeDepth, broker.ScopeWildcard},
		Entitlements: []broker.Entitlement{{Market: "*", Trades: true, Quotes: true, Depth: -1}},
	}
	quotes := broker.Rights{Scopes: []string{broker.ScopeRead}, Entitlements: []broker.Entitlement{{Market: "*", Quotes: true}}}
	err := errors.Join(c.set(ctx, "demo", all), c.set(ctx, "basic", quotes))
	for i, token := range []string{"demo", "demo2", "basic"} {
		if err == nil {
			err = c.login(ctx, token, strings.TrimSuffix(token, "2"), "f"+strconv.Itoa(i+1))
		}
	}
	return c, err
}

func (c *cast) close() {
	for _, l := range c.logins {
		l.client.Close()
	}
}

// set adds a user, or changes its rights.
func (c *cast) set(ctx context.Context, name string, r broker.Rights) error {
	if r.Limits == (broker.Limits{}) {
		r.Limits = c.limits
	}
	if c.known[name] {
		return c.gateway.users.SetRights(ctx, name+c.suffix, r)
	}
	c.known[name] = true
	return c.gateway.users.Add(ctx, name+c.suffix, c.password, r)
}

// login logs a user in, for a token.
func (c *cast) login(ctx context.Context, token, user, family string) error {
	other, err := c.gateway.open(user+c.suffix, c.password)
	if err != nil {
		return err
	}
	l := &login{client: other, family: family}
	if l.tokens, err = other.Login(ctx); err != nil {
		other.Close()
		return fmt.Errorf("log in as %s: %w", user, err)
	}
	c.logins[token] = l
	return nil
}

// step does what a line about users says. isStep reports whether it is one.
func (c *cast) step(ctx context.Context, st step) (isStep bool, err error) {
	args := strings.Fields(st.Rest)
	switch {
	case st.Verb == "user" && len(args) > 0:
		r, err := c.rights(args[1:])
		if err != nil {
			return true, err
		}
		return true, c.set(ctx, args[0], r)
	case st.Verb == "token" && len(args) == 4:
		return true, c.login(ctx, args[0], args[1], args[2])
	case st.Verb == "revoke" && len(args) == 2:
		return true, c.gateway.users.Logout(ctx, args[1]+c.suffix)
	case st.Verb == "revoke":
		for _, l := range c.logins {
			if l.family == st.Rest {
				return true, l.client.Logout(ctx)
			}
		}
		return true, errors.New("there is no login " + st.Rest)
	}
	return false, nil
}

// rights reads the words of a step user.
func (c *cast) rights(words []string) (r broker.Rights, err error) {
	r.Scopes = []string{broker.ScopeRead, broker.ScopeDepth, broker.ScopeWildcard}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "scopes":
			r.Scopes = []string{}
			for name := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == ',' }) {
				if name != broker.ScopeAdmin {
					name = "marketdata:" + name
				}
				r.Scopes = append(r.Scopes, name)
			}
		case "rights":
			for one := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == ',' }) {
				e, err := c.entitlement(one)
				if err != nil {
					return r, err
				}
				r.Entitlements = append(r.Entitlements, e)
			}
		case "connections":
			r.Limits.Connections, err = strconv.Atoi(value)
		case "subscriptions":
			r.Limits.Subscriptions, err = strconv.Atoi(value)
		case "rate":
			r.Limits.MessagesPerSecond, err = strconv.Atoi(value)
		default:
			err = errors.New("unknown word " + word)
		}
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

// entitlement reads a right such as BYMA/trades/book5.
func (c *cast) entitlement(text string) (e broker.Entitlement, err error) {
	words := strings.Split(text, "/")
	e.Market = c.market(words[0])
	for _, word := range words[1:] {
		depth, isBook := strings.CutPrefix(word, "book")
		from, begins := strings.CutPrefix(word, "from")
		until, ends := strings.CutPrefix(word, "until")
		most, isLimit := strings.CutPrefix(word, "max")
		var d time.Duration
		switch {
		case word == "trades":
			e.Trades = true
		case word == "quotes":
			e.Quotes = true
		case word == "book":
			e.Depth = -1
		case isBook:
			e.Depth, err = strconv.Atoi(depth)
		case isLimit:
			e.Instruments, err = strconv.Atoi(most)
		case begins:
			d, err = time.ParseDuration(from)
			e.From = time.Now().Add(d)
		case ends:
			d, err = time.ParseDuration(until)
			e.Until = time.Now().Add(d)
		default:
			err = errors.New("unknown right " + word)
		}
		if err != nil {
			return e, err
		}
	}
	return e, nil
}
