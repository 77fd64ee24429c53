package server

import (
	"context"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/internal/engine/session/testdata"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/ruedatest"
)

// open opens a gateway of package ruedatest with three instruments.
func open(t *testing.T) *Gateway {
	t.Helper()
	s := ruedatest.Start(t, ruedatest.Config{})
	for _, name := range []string{"ALUA|BYMA|CI", "PAMP|BYMA|24hs", "YPFD|BYMA|CI"} {
		id, err := market.ParseInstrumentID(name)
		if err != nil {
			t.Fatal(err)
		}
		s.Define(market.Instrument{ID: id, Currency: "ARS", PriceDecimals: 2})
	}
	login := func() (*client.Client, error) {
		return client.New([]string{s.URL}, client.Options{Username: s.Username, Password: client.Secret(s.Password)})
	}
	g, err := Open(t.Context(), Config{URL: s.URL, Demo: login})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestRunAllLong runs the conversations without long waits, and one that waits, against a good
// gateway. What is not run says why.
func TestRunAllLong(t *testing.T) {
	t.Parallel()
	g := open(t)
	all, err := Conversations()
	if err != nil {
		t.Fatal(err)
	}
	var chosen []Conversation
	for _, c := range all {
		if c.Name == "wildcard-order-book" {
			continue // gateways of ruedatest allow them
		}
		if c.Duration() <= tolerance && !strings.HasPrefix(c.Name, "rate-") || c.Name == "auth-timeout" {
			chosen = append(chosen, c)
		}
	}
	words := map[string]int{}
	err = RunAll(t.Context(), g, chosen, 4, func(r Result) error {
		words[r.Word]++
		if r.Word == Failed || r.Word == NotRun && !strings.HasPrefix(r.Why, "needs ") {
			t.Errorf("%+v", r)
		}
		return nil
	})
	if err != nil || words[Passed] < 24 || words[Passed]+words[NotRun] != len(chosen) {
		t.Errorf("%v, %v", words, err)
	}
	t.Logf("figure: %d conversations passed, %d not run", words[Passed], words[NotRun])
}

// TestFailures runs conversations that a gateway does not follow.
func TestFailures(t *testing.T) {
	t.Parallel()
	g := open(t)
	for text, want := range map[string]string{
		"# a\nlogin\n> {\"action\":\"ping\"}\n< {\"action\":\"pang\"}":                       `line 4 < {"action":"pang"}: action is "pong", not "pang": got {"action":"pong"`,
		"# a\nlogin\n> {\"action\":\"ping\",\"id\":1}":                                       `line 0 : at the end: the client got {"action":"pong","id":1`,
		"# a\n> {\"action\":\"auth_token\",\"token\":\"x\"}\n< {...}\nclosed 4403 forbidden": `line 4 closed 4403 forbidden: got closed 4401 invalid_token`,
	} {
		r := run(t.Context(), g, parse(t, text))
		r.Step = strings.TrimSpace(r.Step)
		if got := "line " + string(rune('0'+r.Line)) + " " + r.Step + ": " + r.Why; r.Word != Failed || !strings.HasPrefix(got, want) {
			t.Errorf("%q: %s %s, want %s", text, r.Word, got, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	long := parse(t, "# a\nlogin\nafter 1h\n")
	if err := RunAll(ctx, g, []Conversation{long}, 1, func(Result) error { return nil }); err == nil {
		t.Error("an interrupt did not end it")
	}
}

func parse(t *testing.T, text string) Conversation {
	t.Helper()
	c, err := testdata.Parse("test", text)
	if err != nil {
		t.Fatal(err)
	}
	return Conversation{Conversation: c}
}
