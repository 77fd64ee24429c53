package asyncapi_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/api/asyncapi"
	"github.com/ruedahq/rueda/internal/api/reason"
	"github.com/ruedahq/rueda/internal/api/schema"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// stream is what tests read of asyncapi.json.
type stream struct {
	Channels struct {
		Stream struct {
			Messages map[string]json.RawMessage
			Bindings struct {
				WS struct{ Headers json.RawMessage }
			}
			Formats    []struct{ Subprotocol string } `json:"x-formats"`
			CloseCodes []closeCode                    `json:"x-close-codes"`
		}
	}
	Components struct {
		Messages map[string]struct {
			Name, Summary string
			Payload       struct {
				Ref string `json:"$ref"`
			}
			CorrelationID json.RawMessage
			Examples      []struct {
				Name    string
				Payload json.RawMessage
			}
		}
	}
	Reasons []reasonWord `json:"x-reasons"`
}

type closeCode struct {
	Code                int
	Reason, Description string
}

type reasonWord struct {
	Reason        string
	In            []string
	Code          int
	Retry, Closes bool
	Cause, Remedy string
}

func readStream(t *testing.T) (s stream) {
	t.Helper()
	if err := json.Unmarshal(asyncapi.Document(), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// component returns the schema of a component.
func component(name string) *schema.Schema {
	all := asyncapi.Components()
	return all[slices.IndexFunc(all, func(n schema.Named) bool { return n.Name == name })].Schema
}

// actionOf returns the action of the messages of a component.
func actionOf(name string) string {
	first := component(name).Fields()[0]
	word, _ := first.Schema.Get("const").(string)
	return word
}

// TestMessages checks that each message belongs to the channel, has the summary of its schema, and
// has a correlation id exactly if its schema has a member id. Its examples are those of golden
// files of package wire, or of conversations.
func TestMessages(t *testing.T) {
	s := readStream(t)
	if len(s.Components.Messages) != len(s.Channels.Stream.Messages) {
		t.Errorf("the channel has %d of %d messages", len(s.Channels.Stream.Messages), len(s.Components.Messages))
	}
	sources := goldenMessages(t)
	for id, m := range s.Components.Messages {
		payload := m.Payload.Ref[strings.LastIndexByte(m.Payload.Ref, '/')+1:]
		of := component(payload)
		hasID := slices.ContainsFunc(of.Fields(), func(f schema.Field) bool { return f.Name == "id" })
		if id != m.Name || s.Channels.Stream.Messages[id] == nil || m.Summary != of.Get("description") || hasID != (m.CorrelationID != nil) {
			t.Errorf("%s: name %q, summary %q, correlation id %s", id, m.Name, m.Summary, m.CorrelationID)
		}
		if len(m.Examples) == 0 {
			t.Errorf("%s has no example", id)
		}
		for _, e := range m.Examples {
			want := sources[e.Name]
			if want == nil {
				want = firstOf(t, e.Name, actionOf(payload))
			}
			if !sameJSON(t, e.Payload, want) {
				t.Errorf("%s: the example %q is not %s", id, e.Name, want)
			}
		}
	}
}

// goldenMessages returns the messages of the server in the golden files of package wire, by name.
func goldenMessages(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	all := map[string]json.RawMessage{}
	for _, file := range []string{"control", "messages"} {
		text, err := os.ReadFile(filepath.Join("../../../wire/testdata", file+".golden"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if name, message, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
				all[name] = json.RawMessage(message)
			}
		}
	}
	return all
}

// firstOf returns the first message with an action that a client sends in a conversation.
func firstOf(t *testing.T, conversation, action string) json.RawMessage {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../engine/session/testdata", conversation+".talk"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		_, message, ok := strings.Cut(strings.TrimSpace(line), "> ")
		if ok && strings.HasPrefix(message, fmt.Sprintf(`{"action":%q`, action)) && json.Valid([]byte(message)) {
			return json.RawMessage(message)
		}
	}
	t.Fatalf("%s.talk has no message %s", conversation, action)
	return nil
}

// sameJSON compares two texts without the space between their tokens.
func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var first, second bytes.Buffer
	if json.Compact(&first, a) != nil || json.Compact(&second, b) != nil {
		t.Fatalf("not JSON: %s, %s", a, b)
	}
	return bytes.Equal(first.Bytes(), second.Bytes())
}

// TestReasons checks that the document lists the reasons of the stream and the codes of close
// frames that package reason describes.
func TestReasons(t *testing.T) {
	var words []reasonWord
	var codes []closeCode
	for _, e := range reason.All() {
		on := e.Word.Socket()
		switch {
		case !e.Socket:
		case on.Closes:
			codes = append(codes, closeCode{4000 + on.Code, string(e.Word), e.Remedy})
		case on.Code == 400:
			codes = append(codes, closeCode{4400, string(e.Word), "The tenth error of code 400 within a minute. Correct the program."})
		}
		w := reasonWord{Reason: string(e.Word), Cause: e.Cause, Remedy: e.Remedy}
		if e.Socket {
			w.In, w.Code, w.Retry, w.Closes = append(w.In, "Error"), on.Code, on.Retry, on.Closes
		}
		if e.Warning {
			w.In = append(w.In, "Warning")
		}
		if e.Lost {
			w.In = append(w.In, "lost")
		}
		if w.In != nil {
			words = append(words, w)
		}
	}
	s := readStream(t)
	compareLists(t, "x-reasons", s.Reasons, words)
	own := slices.DeleteFunc(slices.Clone(s.Channels.Stream.CloseCodes), func(c closeCode) bool { return c.Code < 4000 })
	compareLists(t, "x-close-codes", own, codes)
	if n := len(s.Channels.Stream.CloseCodes) - len(own); n != 3 {
		t.Errorf("%d codes of RFC 6455, want 1000, 1002 and 1007", n)
	}
}

func compareLists[V any](t *testing.T, name string, got, want []V) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("%s differs from item %d on: %+v, want %+v", name, i, got[min(i, len(got)):min(i+1, len(got))], want[min(i, len(want)):min(i+1, len(want))])
			return
		}
	}
}

// TestWords checks that the lists of words in the document are those of the code.
func TestWords(t *testing.T) {
	named := func(count int, name func(int) string) (list []string) {
		for i := range count {
			list = append(list, name(i))
		}
		return list
	}
	reasons := reason.Words(func(e reason.Entry) bool { return e.Socket })
	var codes []string
	for _, w := range reasons {
		codes = append(codes, strconv.Itoa(wire.Reason(w).Socket().Code))
	}
	slices.Sort(codes)
	codes = slices.Compact(codes)
	var faults, aliases []string
	for _, f := range wire.SimFaults() {
		if faults, aliases = append(faults, f.Name), append(aliases, f.Name); f.Alias != "" {
			aliases = append(aliases, f.Alias)
		}
	}
	var phases []string
	for p := market.NoPhase + 1; p.String() != ""; p++ {
		phases = append(phases, p.String())
	}
	channels := named(int(wire.Bars)+1, func(i int) string { return wire.Channel(i).String() })
	for at, want := range map[string][]string{
		"Phase":              phases,
		"Interval":           named(int(market.NumIntervals), func(i int) string { return market.Interval(i).String() }),
		"Channel":            channels,
		"Error.reason":       reasons,
		"Error.code":         codes,
		"Rejection.reason":   reasons,
		"Rejection.code":     codes,
		"Removal.reason":     reasons,
		"LostRange.reason":   reason.Words(func(e reason.Entry) bool { return e.Lost }),
		"Sim.fault":          faults,
		"SimRequest.fault":   aliases,
		"AuthToken.slow":     {wire.SlowConflate, wire.SlowStrict},
		"SequencesByChannel": nil,
	} {
		name, member, _ := strings.Cut(at, ".")
		s := component(name)
		for _, f := range s.Fields() {
			if f.Name == member {
				s = f.Schema
			}
		}
		var got []string
		values, _ := s.Get("enum").([]any)
		for _, v := range values {
			got = append(got, fmt.Sprint(v))
		}
		if want == nil { // an object with a member for each channel
			want = channels
			for _, f := range s.Fields() {
				got = append(got, f.Name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has the words %q, the code %q", at, got, want)
		}
	}
	checkFormats(t)
}

// checkFormats checks that the document has the subprotocols of package wire, also in the text of
// the handshake.
func checkFormats(t *testing.T) {
	t.Helper()
	s := readStream(t)
	var got, want []string
	for _, f := range s.Channels.Stream.Formats {
		got = append(got, f.Subprotocol)
	}
	for f := wire.JSON; f <= wire.Msgpack; f++ {
		want = append(want, f.Subprotocol())
	}
	if !slices.Equal(got, want) || !bytes.Contains(s.Channels.Stream.Bindings.WS.Headers, []byte(strings.Join(want, ", ")+".")) {
		t.Errorf("the document has the formats %q, the code %q", got, want)
	}
}

// TestNoUnusedComponents checks that every component that a message refers to exists, and that a
// message refers to each.
func TestNoUnusedComponents(t *testing.T) {
	var payloads []*schema.Schema
	for _, m := range readStream(t).Components.Messages {
		payloads = append(payloads, schema.FromKeywords(schema.Map{}.With("$ref", m.Payload.Ref)))
	}
	slices.SortFunc(payloads, func(a, b *schema.Schema) int {
		return cmp.Compare(fmt.Sprint(a.Get("$ref")), fmt.Sprint(b.Get("$ref")))
	})
	all := asyncapi.Components()
	used, missing := schema.Reachable(all, payloads)
	if len(missing) > 0 || len(used) != len(all) {
		t.Errorf("%d of %d components are used, %q do not exist", len(used), len(all), missing)
	}
}
