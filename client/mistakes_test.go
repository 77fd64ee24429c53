package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/ruedatest"
	"github.com/ruedahq/rueda/wire"
)

// TestMistakes makes the mistakes that a new user makes. Each error names what is wrong, and what
// to do.
func TestMistakes(t *testing.T) {
	s := ruedatest.Start(t, ruedatest.Config{})
	s.Define(instrument(t, ggal))
	good := client.Options{Username: s.Username, Password: client.Secret(s.Password)}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := "http://" + closed.Addr().String()
	_ = closed.Close()

	created := func(url string, o client.Options) func() error {
		return func() error {
			_, err := client.New([]string{url}, o)
			return err
		}
	}
	with := func(change func(*client.Options)) func() error {
		o := good
		change(&o)
		return created(s.URL, o)
	}
	set := func(x client.Set) func() error {
		return func() error {
			c, err := client.New([]string{s.URL}, good)
			if err != nil {
				return err
			}
			defer c.Close()
			return c.Subscribe(x)
		}
	}
	events := func(url string, o client.Options, x client.Set) func() error {
		return func() error { return firstError(t, url, o, x) }
	}
	history := func(id string, r client.Range) func() error {
		return func() error {
			c, err := client.New([]string{s.URL}, good)
			if err != nil {
				return err
			}
			defer c.Close()
			for _, err := range c.Trades(t.Context(), id, r) {
				if err != nil {
					return err
				}
			}
			return nil
		}
	}
	book := func(id string, x client.Set) func() error {
		return func() error {
			c, err := client.New([]string{s.URL}, good)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := c.Subscribe(x); err != nil {
				return err
			}
			_, err = c.Book(id)
			return err
		}
	}
	trades := client.Set{Trades: []string{ggal}}
	day := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	for _, m := range []struct {
		name string
		do   func() error
		want []string
	}{
		{"no scheme", created("127.0.0.1:8080", good), []string{`"127.0.0.1:8080"`, "neither https:// nor http://"}},
		{"another scheme", created("ftp://127.0.0.1", good), []string{"ftp://127.0.0.1", "neither https:// nor http://"}},
		{"no host", created("http://:8080", good), []string{"names no host"}},
		{"a wrong port", created("http://127.0.0.1:port", good), []string{"port"}},
		{"credentials in the URL", created("http://demo:demo@127.0.0.1", good), []string{"user and the password as Options"}},
		{"a query", created("http://127.0.0.1/?token=x", good), []string{"it has a query"}},
		{"a page", created("http://127.0.0.1:8080/client/", good), []string{`"http://127.0.0.1:8080/client/" is the URL of a page. Write http://127.0.0.1:8080`}},
		{"a page behind a proxy", created("https://api.example/x/docs/protocol", good), []string{"is the URL of a page. Write https://api.example/x"}},
		{"without TLS", created("http://192.0.2.1", good), []string{"http://192.0.2.1", "use https, or set Insecure"}},
		{"a name of the session", with(func(o *client.Options) { o.Session = "my bot" }), []string{`Options.Session is "my bot": must be 1 to 36 of A-Z a-z 0-9 . _ -`}},
		{"a queue", with(func(o *client.Options) { o.Queue = -1 }), []string{"Options.Queue is -1: must be above 0"}},
		{"an overflow", with(func(o *client.Options) { o.Overflow = 7 }), []string{"Options.Overflow is 7: must be Conflate, Block or Drop"}},
		{"no username", with(func(o *client.Options) { o.Username = "" }), []string{"Password without a Username"}},
		{"no identifier", set(client.Set{Trades: []string{"GGAL"}}), []string{`"GGAL" in trades`, "not of the form SYMBOL|MARKET|TERM"}},
		{"a wrong part", set(client.Set{Books: []string{"GGAL|BYMA|24 hs"}}), []string{`in books: "24 hs" is not a term`}},
		{"an interval", set(client.Set{Bars: []string{ggal + "|4h"}}), []string{`"GGAL|BYMA|24hs|4h" in bars: 4h is not one of 1s, 1m, 5m, 15m, 1h, 1d`}},
		{"no interval", set(client.Set{Bars: []string{ggal}}), []string{"it has no interval: write GGAL|BYMA|24hs|1m"}},
		{"a depth", set(client.Set{Books: []string{ggal}, Depth: 7}), []string{"depth is 7: must be 1, 5, 10, 25 or AllLevels"}},
		{"a conflation", set(client.Set{Quotes: []string{ggal}, Conflate: 2 * time.Second}), []string{"conflation is 2s: must be 100 ms, 250 ms or 1 s"}},
		{"a wrong password", events(s.URL, client.Options{Username: s.Username, Password: "wrong"}, trades), []string{"invalid_credentials"}},
		{"no password", events(s.URL, client.Options{Username: s.Username}, trades), []string{"neither a password nor a stored token"}},
		{"a dead port", events(dead, good, trades), []string{dead[len("http://"):], "connection refused. Is the gateway running there?"}},
		{"https without TLS", events(strings.Replace(s.URL, "http", "https", 1), good, trades), []string{"the server does not use TLS. For a gateway without TLS, write " + s.URL}},
		{"an unknown instrument", events(s.URL, good, client.Set{Trades: []string{"NOPE|BYMA|24hs"}}), []string{"unknown_instrument", "NOPE|BYMA|24hs"}},
		{"history of no instrument", history("GGAL", client.Range{}), []string{"bad_instrument"}},
		{"an unknown instrument of history", history("GGLA|BYMA|24hs", client.Range{}), []string{"unknown_instrument: Unknown instrument: instrument GGLA|BYMA|24hs is not listed. Did you mean GGAL|BYMA|24hs?"}},
		{"a book that is not in the set", book("AL30|BYMA|24hs", client.Set{Books: []string{ggal}}), []string{`"AL30|BYMA|24hs" is not in the set of books: subscribe to it first`}},
		{"a book that is not known yet", book(ggal, client.Set{Books: []string{"*|BYMA|24hs"}}), []string{"the book is not known at present"}},
		{"a range", history(ggal, client.Range{Start: day, End: day}), []string{"end must be after start"}},
	} {
		t.Run(m.name, func(t *testing.T) {
			err := m.do()
			for _, want := range m.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
			}
		})
	}
}

// firstError returns the first error or rejection that the loop over events has.
func firstError(t *testing.T, url string, o client.Options, set client.Set) error {
	t.Helper()
	c, err := client.New([]string{url}, o)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Subscribe(set); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for ev := range c.Events(ctx) {
		switch ev := ev.(type) {
		case client.StateChange:
			if ev.Err != nil {
				return ev.Err
			}
		case client.Rejected:
			return errors.New(string(ev.Reason) + " " + ev.Instrument)
		}
	}
	return c.Err()
}

// TestOwnMistakes checks that an error of a function of the program, and what a gateway refuses,
// end Events at once, and that errors of the network and of the gateway do not.
func TestOwnMistakes(t *testing.T) {
	mine := errors.New("my mistake")
	for name, o := range map[string]client.Options{
		"store": {Tokens: brokenStore{mine}},
		"proxy": {Username: "ana", Password: "p", Proxy: func(*http.Request) (*url.URL, error) { return nil, mine }},
		"otp":   {Username: "ana", Password: "p", OTP: func(context.Context) (string, error) { return "", mine }},
	} {
		s := httpServer(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"success":false,"error":{"code":403,"reason":"mfa_required","msg":"Send otp"}}`))
		})
		states, err := untilWait(t, s, o)
		if !errors.Is(err, mine) || states[client.Waiting] > 0 || states[client.Closed] != 1 {
			t.Errorf("%s: %v, %v", name, err, states)
		}
	}
	for _, x := range []struct {
		code   int
		reason wire.Reason
		again  bool
	}{
		{401, wire.InvalidCredentials, false}, {403, wire.Forbidden, false}, {404, "", false}, {404, wire.NotFound, false}, {302, "", false},
		{409, "new_word", false}, {408, wire.Timeout, true}, {429, wire.RateLimited, true}, {500, wire.Internal, true}, {502, "", true}, {503, wire.Unavailable, true},
		{401, wire.InvalidToken, true}, {401, wire.TokenExpired, true},
	} {
		s := httpServer(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(x.code)
			_, _ = w.Write([]byte(`{"success":false,"error":{"reason":"` + string(x.reason) + `"}}`))
		})
		states, err := untilWait(t, s, client.Options{Username: "ana", Password: "p"})
		if again := states[client.Waiting] > 0; again != x.again || !again && err == nil {
			t.Errorf("%d %s: again %v, %v", x.code, x.reason, again, err)
		}
	}
}

// untilWait iterates over events until the client waits for another attempt, or ends. It returns
// how often each state came.
func untilWait(t *testing.T, url string, o client.Options) (map[client.State]int, error) {
	t.Helper()
	c, err := client.New([]string{url}, o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	states := map[client.State]int{}
	for ev := range c.Events(ctx) {
		s, ok := ev.(client.StateChange)
		if !ok {
			continue
		}
		if states[s.State]++; s.State == client.Waiting {
			break
		}
	}
	return states, c.Err()
}

// httpServer returns the URL of a server.
func httpServer(t *testing.T, handle http.HandlerFunc) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handle}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-ended
	})
	return "http://" + listener.Addr().String()
}

// brokenStore is a TokenStore that always fails.
type brokenStore struct{ err error }

func (s brokenStore) Load(context.Context) (client.Tokens, error) { return client.Tokens{}, s.err }
func (s brokenStore) Save(context.Context, client.Tokens) error   { return s.err }
