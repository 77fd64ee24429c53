package client_test

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/ruedatest"
	"github.com/ruedahq/rueda/wire/stream"
)

// TestCheckpoint checks that another client continues after what the first one has processed.
func TestCheckpoint(t *testing.T) {
	t.Parallel()
	s, c := start(t, ruedatest.Config{}, client.Options{}, client.Set{Trades: []string{ggal}})
	p := &trades{s: s}
	a := newAccount(t)
	follow(t, c, a, 3, func(ev client.Event) {
		if ev, ok := ev.(client.StateChange); ok && ev.State == client.Live {
			p.upTo(10)
		}
	}, nil)
	left := c.Checkpoint() // trade 3 was in progress when follow left the loop
	if left.Sequences["trades "+ggal] != 2 || left.Epoch == "" || left.Position == "" {
		t.Errorf("%+v", left)
	}
	var k client.Checkpoint
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	for ev := range c.Events(ctx) {
		if k = c.Checkpoint(); k.Sequences["trades "+ggal] < 3 {
			t.Errorf("the next loop has not processed trade 3: %+v", k)
		}
		if a.add(ev); a.next[stream.Series{Instrument: instrument(t, ggal).ID}] > 5 {
			cancel()
		}
	}
	if k = c.Checkpoint(); k.Sequences["trades "+ggal] != 5 {
		t.Errorf("the context has ended, after the body: %+v", k)
	}
	p.upTo(12)
	follow(t, connect(t, s, client.Options{Resume: &k}, client.Set{Trades: []string{ggal}}), a, 12, nil, nil)
	if a.got != 12 || a.lost != 0 {
		t.Errorf("%d received, %d lost", a.got, a.lost)
	}
	again := newAccount(t)
	again.next[stream.Series{Instrument: instrument(t, ggal).ID}] = 3
	follow(t, connect(t, s, client.Options{Resume: &left}, client.Set{Trades: []string{ggal}}), again, 12, nil, nil)
	if again.got != 10 || again.lost != 0 {
		t.Errorf("%d received, %d lost", again.got, again.lost)
	}
	for text, valid := range map[string]bool{`{"sum":1}`: false, `null`: false, `[]`: false, `{"epoch":"","position":"","sequences":null}`: true} {
		if err := json.Unmarshal([]byte(text), new(client.Checkpoint)); (err == nil) != valid {
			t.Errorf("%s: %v", text, err)
		}
	}
	var stored client.Checkpoint
	text, err := json.Marshal(k)
	if err == nil {
		err = json.Unmarshal(text, &stored)
	}
	if err != nil || !reflect.DeepEqual(stored, k) {
		t.Errorf("%+v, %v: want %+v", stored, err, k)
	}
	k.Sequences["nothing "+ggal] = 1
	if _, err := client.New([]string{s.URL}, client.Options{Resume: &k}); err == nil {
		t.Error("a checkpoint of an unknown channel was accepted")
	}
}
