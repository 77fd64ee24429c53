package upgrade_test

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/ruedahq/rueda/tests/upgrade/fixture"
)

// TestRows compares what this program answers about the rows of a journal with what was streamed.
// The lines of false_today.jsonl are what it answers wrongly. The test fails if there are more of
// them or fewer: when the fault is gone, the file becomes empty.
func TestRows(t *testing.T) {
	folder := copied(t, "sqlite")
	streamed := streamed(t)
	false_, err := fixture.ReadLines[fixture.False](filepath.Join(fd6a63bd, "false_today.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var was fixture.Logins
	parse(t, readFile(t, "sqlite", "logins.json"), &was)
	synctest.Test(t, func(t *testing.T) {
		until(was.Exchanges[0].At)
		c, stop := serve(t, folder)
		defer stop()
		token := c.login("ana")
		list, err := fixture.Compare(fixture.Texts(streamed), c.rows(token))
		if err != nil {
			t.Fatal(err)
		}
		for _, from := range fixture.Resumes(streamed) {
			lost, err := fixture.Lost(streamed, from, c.resume(token, streamed[from-1].Position))
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, lost...)
		}
		sameFalse(t, list, false_)
	})
}

// sameFalse reports wrong answers that are new, and those that are wrong no longer.
func sameFalse(t *testing.T, got, want []fixture.False) {
	t.Helper()
	now := map[fixture.False]bool{}
	for _, f := range got {
		now[f] = true
	}
	gone := 0
	for _, f := range want {
		if !now[f] {
			gone++
		}
		delete(now, f)
	}
	if gone > 0 {
		t.Errorf("%d of the %d lines of false_today.jsonl are answered in another way today: remove those that are right now", gone, len(want))
	}
	for i, f := range slices.SortedFunc(maps.Keys(now), fixture.Order) {
		if i == 10 {
			t.Errorf("and %d more", len(now)-i)
			break
		}
		t.Errorf("wrong: %+v", f)
	}
}

// streamed returns what a client received, after a comparison with what the producer sent.
func streamed(t *testing.T) []fixture.Message {
	t.Helper()
	messages, err1 := fixture.ReadLines[fixture.Message](filepath.Join(fd6a63bd, "streamed.jsonl.gz"))
	sent, err2 := fixture.ReadLines[json.RawMessage](filepath.Join(fd6a63bd, "sent.jsonl.gz"))
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	type trade struct {
		Type, I, X string
		P, Z       json.Number
	}
	var trades, of []trade
	for _, line := range sent {
		var x trade
		if parse(t, line, &x); fixture.Channel(x.Type) == "trades" {
			trades = append(trades, x)
		}
	}
	for _, m := range messages {
		var x trade
		if parse(t, m.Data, &x); fixture.Channel(x.Type) == "trades" {
			of = append(of, x)
		}
	}
	if !slices.Equal(trades, of) || len(of) < 1500 {
		t.Fatalf("the client received other trades (%d) than the producer sent (%d)", len(of), len(trades))
	}
	return messages
}

// rows returns all rows of the compared channels over REST.
func (c *asker) rows(token string) (rows []json.RawMessage) {
	c.t.Helper()
	for _, id := range fixture.Instruments() {
		for _, channel := range fixture.Channels() {
			status, text := c.ask(&fixture.Exchange{Method: http.MethodGet, Token: token, Path: "/market/" + channel + "?limit=10000&instrument=" + url.QueryEscape(id)})
			var page struct{ Data map[string]json.RawMessage }
			var list []json.RawMessage
			parse(c.t, text, &page)
			if status != http.StatusOK {
				c.t.Fatalf("%s: %s", channel, text)
			}
			parse(c.t, page.Data[channel], &list)
			rows = append(rows, list...)
		}
	}
	return rows
}

// resume returns the messages that a client receives that resumes after a position.
func (c *asker) resume(token, position string) (list []json.RawMessage) {
	c.t.Helper()
	x := fixture.Exchange{Method: http.MethodGet, Path: fixture.StreamPath(), Token: token}
	res := c.open(&x, http.Header{"Last-Event-Id": {position}})
	defer res.Body.Close()
	err := fixture.Stream(res.Body, func(m fixture.Message) bool {
		list = append(list, m.Data)
		var kind struct{ Type string }
		parse(c.t, m.Data, &kind)
		return kind.Type != "CaughtUp"
	})
	if err != nil {
		c.t.Fatalf("resume after %s: %v", position, err)
	}
	return list
}
