package client_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/ruedatest"
	"github.com/ruedahq/rueda/wire/stream"
)

// TestDial speaks the protocol on a stream of its own, to the refusal of the gateway.
func TestDial(t *testing.T) {
	t.Parallel()
	_, c := start(t, ruedatest.Config{}, client.Options{}, client.Set{})
	ctx := within(t)
	conn, err := c.Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	now, err := c.Login(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ says, answer string }{
		{`{"action":"auth_token","token":"` + string(now.Access) + `"}`, `"type":"Success"`},
		{`{"action":"ping"}`, `"action":"pong"`},
	} {
		if err := conn.Write(ctx, []byte(step.says)); err != nil {
			t.Fatal(err)
		}
		if got, isText, err := conn.Read(ctx); err != nil || !isText || !strings.Contains(string(got), step.answer) {
			t.Fatalf("got %s, %v, want %s", got, err, step.answer)
		}
	}
	if err := conn.Write(ctx, []byte(`{"action":"auth_token","token":"x"}`)); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, _, err = conn.Read(ctx)
	}
	var e *client.Error
	if !errors.As(err, &e) || e.Code != 401 || e.Reason != "invalid_token" || !e.Closed {
		t.Errorf("the end: %v", err)
	}
}

// TestMessages checks that the messages of a stream come with its events, in their order, and
// before the events that are made of them.
func TestMessages(t *testing.T) {
	t.Parallel()
	s, c := start(t, ruedatest.Config{}, client.Options{Messages: true}, client.Set{Trades: []string{ggal}})
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	var kinds []stream.Kind
	for ev := range c.Events(ctx) {
		switch ev := ev.(type) {
		case client.StateChange:
			if ev.State == client.Live {
				s.Trade(ggal, "7050", "10")
			}
		case client.Message:
			if ev.Received.IsZero() || len(ev.Raw()) == 0 {
				t.Errorf("%+v", ev)
			}
			kinds = append(kinds, ev.Kind)
		case *client.Trade:
			kinds = append(kinds, stream.Unknown)
			cancel()
		}
	}
	if want := []stream.Kind{stream.Success, stream.Subscription, stream.Trade, stream.Unknown}; !slices.Equal(kinds, want) {
		t.Errorf("got %v, want %v", kinds, want)
	}
}
