package asyncapitest

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/api/asyncapi"
	"github.com/ruedahq/rueda/wire"
)

// TestGolden checks the golden messages of package wire.
func TestGolden(t *testing.T) {
	n := 0
	for _, name := range []string{"messages", "control"} {
		text, err := os.ReadFile("../../../../wire/testdata/" + name + ".golden")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			_, message, _ := strings.Cut(strings.TrimSpace(line), ": ")
			Received(t, []byte(message))
			n++
		}
	}
	if n < 40 {
		t.Errorf("%d messages", n)
	}
}

// TestMutations changes messages that the document allows. Each change must be noticed: another
// type, action, reason, code or word, a member that the document does not have, one of another
// type, and one that is missing.
func TestMutations(t *testing.T) {
	type change struct{ from, to string }
	for _, c := range []struct {
		check   func([]byte) error
		message string
		changes []change
	}{
		{CheckServer, `{"type":"T","S":"GGAL","I":"GGAL|BYMA|24hs","N":7,"T":"2026-11-20T14:30:00.123456789Z","D":5,"P":7050,"Z":120}`, []change{
			{`"type":"T"`, `"type":"V"`}, {`"D":5`, `"V":5`}, {`"P":7050`, `"P":"7050"`}, {`,"Z":120`, ``}, {`.123456789Z`, `.123Z`},
			{`"N":7`, `"N":0`}, {`"D":5`, `"D":-5`}, {`|24hs`, ``}, {`"D":5`, `"G":"X"`}, {`"D":5`, `"action":"ping"`},
		}},
		{CheckServer, `{"type":"O","S":"GGAL","I":"GGAL|BYMA|24hs","N":7,"T":"2026-11-20T14:30:00.123456789Z","R":true,"DL":5,"B":[[7049.5,300,4]],"A":[],"K":1}`, []change{
			{`"R":true`, `"R":false`}, {`"DL":5`, `"DL":6`}, {`300,4]`, `300,4,5]`}, {`[7049.5,300,4]`, `[7049.5]`}, {`"A":[],`, ``}, {`"K":1`, `"K":4294967296`}, {`300,4`, `-300,4`},
		}},
		{CheckServer, `{"type":"H","S":"*","I":"*|BYMA|*","N":8,"T":"2026-11-20T14:30:00.123456789Z","E":"open"}`, []change{{`"open"`, `"opened"`}, {`"E":"open"`, `"Y":"x"`}}},
		{CheckServer, `{"type":"Error","code":429,"reason":"rate_limited","msg":"Wait","retry":true,"retry_after":1}`, []change{
			{`rate_limited`, `rate_exceeded`}, {`rate_limited`, `body_too_big`}, {`429`, `400`}, {`429`, `430`}, {`"retry":true`, `"retry":false`}, {`,"retry":true`, ``}, {`"retry_after":1`, `"retry_at":1`},
		}},
		{CheckServer, `{"type":"Warning","code":200,"reason":"slow_client","msg":"x","behind_ms":1,"queued":2}`, []change{
			{`slow_client`, `token_expiring`}, {`slow_client`, `slow`}, {`,"queued":2`, ``}, {`"queued":2`, `"queued":2,"more":1`},
		}},
		{CheckServer, `{"type":"Subscription","code":200,"msg":"Subscribed","epoch":"e","trades":["A|B|C"],"count":{"trades":1},"lost":{"trades":{"A|B|C":{"reason":"ahead"}}},"rejected":[{"channel":"bars","instrument":"x","code":404,"reason":"unknown_instrument","msg":"m"}]}`, []change{
			{`"ahead"`, `"behind"`}, {`"count":{"trades"`, `"count":{"depth"`}, {`"channel":"bars"`, `"channel":"depth"`}, {`"unknown_instrument"`, `"unknown"`}, {`"lost":{"trades"`, `"lost":{"books"`}, {`"reason":"ahead"`, `"reason":"ahead","at":1`},
		}},
		{CheckServer, wire.Ping, []change{{`ping`, `subscribe`}, {`"ping"`, `"ping","id":1`}}},
		{CheckClient, `{"action":"subscribe","id":5,"trades":["GGAL|BYMA|24hs"],"depth":5,"resume":{"epoch":"e7k2","trades":{"GGAL|BYMA|24hs":1042}}}`, []change{
			{`"subscribe"`, `"follow"`}, {`"subscribe"`, `"pong"`}, {`"depth":5`, `"depth":6`}, {`"depth":5`, `"levels":5`}, {`"epoch":"e7k2",`, ``}, {`1042`, `"1042"`}, {`"id":5`, `"id":[5]`},
			{`"epoch"`, `"more":1,"epoch"`}, {`"depth":5`, `"start":"open"`}, {`"depth":5`, `"interval":"1m"`},
		}},
		{CheckClient, `{"action":"auth_token","token":"x"}`, []change{{`"token":"x"`, `"jwt":"x"`}, {`"token":"x"`, `"token":null`}, {`"action":"auth_token"`, `"type":"Success"`}}},
	} {
		if err := c.check([]byte(c.message)); err != nil {
			t.Errorf("%s: %v", c.message, err)
		}
		for _, x := range c.changes {
			changed := strings.Replace(c.message, x.from, x.to, 1)
			if changed == c.message {
				t.Errorf("%s does not have %s", c.message, x.from)
			}
			if c.check([]byte(changed)) == nil {
				t.Errorf("not noticed: %s", changed)
			}
		}
	}
	for _, text := range []string{``, `[]`, `7`, `{"type":`, `{}`} {
		if CheckServer([]byte(text)) == nil || CheckClient([]byte(text)) == nil {
			t.Errorf("not noticed: %q", text)
		}
	}
	if CheckClose(4401, "token_expired") != nil || CheckClose(4401, "slow_client") == nil || CheckClose(4999, "") == nil || CheckClose(1002, "frame not masked") != nil || CheckClose(1000, "") != nil || CheckClose(1000, "x") == nil || CheckClose(1001, "") == nil {
		t.Error("close codes are not those of the document")
	}
}

// TestDocumentsThatMiss checks that half a document is an error, and so is a message without an
// operation.
func TestDocumentsThatMiss(t *testing.T) {
	changed := bytes.ReplaceAll(asyncapi.Document(), []byte("#/channels/stream/messages/alive\""), []byte("#/channels/stream/messages/trade\""))
	if _, err := New(changed); err == nil || !strings.Contains(err.Error(), "alive") {
		t.Errorf("got %v", err)
	}
	if _, err := New([]byte("{")); err == nil {
		t.Error("half a document is accepted")
	}
}

// TestConversation checks that a wrong message of a client must be refused, unless the connection
// was closed.
func TestConversation(t *testing.T) {
	wrong, refusal := []byte(`{"action":"subscribe","channel":1}`), []byte(`{"type":"Error","code":400,"reason":"bad_field","msg":"x","retry":false}`)
	var c Conversation
	c.Sent([]byte(`{"action":"ping"}`))
	c.Received([]byte(wire.Ping))
	if err := c.Err(); err != nil {
		t.Error(err)
	}
	c.Sent(wrong)
	if c.Err() == nil {
		t.Error("a wrong message without an answer is not noticed")
	}
	c.Received(refusal)
	if err := c.Err(); err != nil {
		t.Error(err)
	}
	c.Sent(wrong)
	c.Closed(4400, "bad_field")
	if err := c.Err(); err != nil {
		t.Error(err)
	}
	c.Received([]byte(`{"type":"News"}`))
	c.Closed(4000, "gone")
	if err := c.Err(); err == nil || strings.Count(err.Error(), "the document") < 1 || !strings.Contains(err.Error(), "4000 gone") || !strings.Contains(err.Error(), "News") {
		t.Errorf("got %v", err)
	}
}

// TestSample checks that a load test validates one of sampleStep messages with a great N.
func TestSample(t *testing.T) {
	var failed []error
	for _, n := range []string{"1", "256", "257", "320", "321"} {
		failed = append(failed, CheckReceived([]byte(`{"type":"V","S":"A","N":`+n+`}`)))
	}
	for i, want := range []bool{true, true, false, true, false} {
		if (failed[i] != nil) != want {
			t.Errorf("message %d: %v", i, errors.Join(failed[i]))
		}
	}
}
