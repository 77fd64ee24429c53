package asyncapi_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/api/asyncapi/asyncapitest"
	"github.com/ruedahq/rueda/internal/api/schema"
	"github.com/ruedahq/rueda/wire"
)

// decode reads a message as the session does. The fault is nil if the server accepts it, up to
// what depends on more than the message.
func decode(text []byte) *wire.Fault {
	m, f := wire.ReadMessage(text, nil)
	if f != nil {
		return f
	}
	switch m.Action {
	case wire.ActionAuthToken:
		_, f = m.AuthToken()
	case wire.ActionSubscribe, wire.ActionUnsubscribe, wire.ActionResync:
		var s wire.Subscribe
		if s, f = m.Subscribe(); f != nil {
			return f
		}
		for c := range s.Lists {
			for _, id := range s.Lists[c] {
				if _, f := wire.ParseIdentifier(wire.Channel(c), id); f != nil {
					return f
				}
			}
		}
	case wire.ActionSim:
		_, f = m.Sim()
	case wire.ActionSubscriptions, wire.ActionPing:
		f = m.Fields()
	case wire.ActionPong:
	default:
		return wire.NewFault(wire.UnknownAction, "")
	}
	return f
}

// candidates has values of the members of requests, valid and not.
func candidates() map[string][]string {
	lists := []string{
		`[]`, `["GGAL|BYMA|24hs"]`, `["GGAL|BYMA|24hs","*|BYMA|*"]`, `["*|*|*"]`, `null`,
		`["GGAL|BYMA"]`, `["GGAL|BYMA|24hs|5m"]`, `["a b|C|D"]`, `[""]`, `"GGAL|BYMA|24hs"`, `[["GGAL|BYMA|24hs"]]`, `[null]`, `{}`, `["É|B|C"]`, `["A|B|` + strings.Repeat("C", 17) + `"]`,
	}
	sequences := []string{`{}`, `{"GGAL|BYMA|24hs":5}`, `{"GGAL|BYMA|24hs":0}`, `null`, `{"GGAL|BYMA|24hs":-1}`, `{"GGAL|BYMA|24hs":"5"}`, `{"GGAL|BYMA|24hs":1.5}`, `{"GGAL|BYMA|24hs":9007199254740992}`, `[]`, `5`}
	switches := []string{`true`, `false`, `null`, `1`, `"true"`}
	all := map[string][]string{
		"id":         {`1`, `-9007199254740992`, `9007199254740992`, `"a"`, `""`, `"` + strings.Repeat("x", 36) + `"`, `null`, `"` + strings.Repeat("x", 37) + `"`, `1.5`, `9007199254740993`, `{}`, `true`},
		"token":      {`"x"`, `""`, `7`, `["x"]`},
		"session":    {`"Bot.1_a-b"`, `"` + strings.Repeat("a", 36) + `"`, `null`, `""`, `"a b"`, `"` + strings.Repeat("a", 37) + `"`, `"é"`, `5`},
		"slow":       {`"conflate"`, `"strict"`, `null`, `""`, `"drop"`, `true`},
		"interval":   {`"1s"`, `"1m"`, `"5m"`, `"15m"`, `"1h"`, `"1d"`, `null`, `"2m"`, `""`, `60`},
		"depth":      {`0`, `1`, `5`, `10`, `25`, `null`, `2`, `-1`, `100`, `"5"`, `[5]`},
		"conflate":   {`"none"`, `"100ms"`, `"250ms"`, `"1s"`, `null`, `"2s"`, `""`, `250`},
		"snapshot":   switches,
		"replace":    switches,
		"alive":      switches,
		"others":     switches,
		"start":      {`"open"`, `"2026-11-20T14:00:00Z"`, `"2026-11-20T14:00:00.123456789Z"`, `"2026-11-20T14:00:00+03:00"`, `null`, `""`, `"now"`, `"2026-11-20"`, `"2026-13-20T14:00:00Z"`, `5`},
		"fault":      {`"gap"`, `"speed"`, `"drain"`, `"halt"`, `"restart"`, `""`, `"Gap"`, `"bad checksum"`, `["gap"]`},
		"speed":      {`2.5`, `1000`, `0.1`, `null`, `0`, `1000.1`, `-1`, `"2"`, `[2]`},
		"instrument": {`"FAKE|SIM|CI"`, `null`, `"FAKE"`, `"*|SIM|*"`, `""`, `7`},
		"epoch":      {`"e1"`, `"` + strings.Repeat("e", 64) + `"`, `""`, `"` + strings.Repeat("e", 65) + `"`, `5`},
		"position":   {`"e1:7"`, `"` + strings.Repeat("p", 128) + `"`, `null`, `""`, `"` + strings.Repeat("p", 129) + `"`, `5`},
		"resume":     {`5`, `[]`, `null`, `"e1"`},
	}
	for c := range wire.Bars + 1 {
		name := c.String()
		all[name], all["resume."+name] = lists, sequences
	}
	all[wire.Bars.String()] = append(slices.Clone(lists), `["GGAL|BYMA|24hs|5m","*|*|*|1d"]`, `["GGAL|BYMA|24hs|7m"]`)
	return all
}

// request makes messages of one action of random members.
type request struct {
	*rand.Rand
	values map[string][]string
	used   map[string]bool // members with a value that the document allows
}

// object returns an object with random members of a schema, and those that are required.
func (r *request) object(s *schema.Schema, prefix string, usual bool) string {
	var members []string
	for _, f := range s.Fields() {
		if f.Optional && r.IntN(4) > 0 && (usual || r.IntN(2) > 0) {
			continue
		}
		values := r.values[prefix+f.Name]
		if values == nil {
			values = r.values[f.Name]
		}
		word, fixed := f.Schema.Get("const").(string)
		var value string
		switch {
		case fixed:
			value = fmt.Sprintf("%q", word)
		case f.Name == "resume" && r.IntN(4) > 0:
			value = r.object(f.Schema, "resume.", usual)
		case usual: // mostly valid
			value = values[r.IntN(min(2, len(values)))]
		default:
			value = values[r.IntN(len(values))]
		}
		members = append(members, fmt.Sprintf("%q:%s", f.Name, value))
	}
	if !usual && r.IntN(10) == 0 && len(members) > 1 { // leave out one that may be required
		members = slices.Delete(members, 1, 2)
	}
	return "{" + strings.Join(members, ",") + "}"
}

// note records the members of an accepted message.
func (r *request) note(text string, prefix string) {
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &object) != nil {
		return
	}
	for name, value := range object {
		if string(value) != "null" {
			r.used[prefix+name] = true
		}
		if name == "resume" {
			r.note(string(value), "resume.")
		}
	}
}

// dependent reports whether a fault is one that a schema cannot express: it depends on the names in
// another member, or on the fault of sim.
func dependent(f *wire.Fault) bool {
	return strings.HasPrefix(f.Msg, "resume.") && strings.Contains(f.Msg, "which the message does not subscribe") ||
		strings.Contains(f.Msg, " cannot be used with ")
}

// TestDecoders checks each decoder of requests against the document, in both directions: the server
// accepts a message exactly if the document allows it, and each documented member is accepted. It
// ignores a member that the document does not have.
func TestDecoders(t *testing.T) {
	values := candidates()
	_, client := asyncapitest.Sides()
	for _, n := range client {
		t.Run(n.Name, func(t *testing.T) {
			r := &request{rand.New(rand.NewPCG(1, 3)), values, map[string]bool{}}
			accepted := 0
			for i := range 2000 {
				text := r.object(n.Schema, "", i%2 == 0)
				fault, err := decode([]byte(text)), asyncapitest.CheckClient([]byte(text))
				if n.Name == "Unsubscribe" || n.Name == "Resync" || fault == nil || !dependent(fault) {
					if (fault == nil) != (err == nil) {
						t.Fatalf("%s\nthe server: %v\nthe document: %v", text, fault, err)
					}
				}
				if fault != nil {
					continue
				}
				accepted++
				r.note(text, "")
				more := strings.TrimSuffix(text, "}") + `,"later":{"a":[1]}}`
				if f := decode([]byte(more)); f != nil {
					t.Fatalf("%s: %v", more, f)
				}
				if err := asyncapitest.CheckClient([]byte(more)); err == nil {
					t.Fatalf("%s: the member later is not noticed", more)
				}
			}
			want := map[string]bool{}
			for _, f := range n.Schema.Fields() {
				want[f.Name] = true
				if f.Name == "resume" {
					for _, g := range f.Schema.Fields() {
						want["resume."+g.Name] = true
					}
				}
			}
			for name := range want {
				if !r.used[name] {
					t.Errorf("no accepted message has %s", name)
				}
			}
			if accepted < 50 {
				t.Errorf("%d messages were accepted", accepted)
			}
		})
	}
}

// TestActions checks that the document has exactly the actions of package wire.
func TestActions(t *testing.T) {
	var names []string
	_, client := asyncapitest.Sides()
	for _, n := range client {
		names = append(names, actionOf(n.Name))
	}
	if want := wire.Actions(); !slices.Equal(names, want) {
		t.Errorf("the document has %q, package wire %q", names, want)
	}
	for _, name := range append(names, "other") {
		if wire.IsAction(name) != (name != "other") {
			t.Errorf("IsAction(%q) is %v", name, wire.IsAction(name))
		}
	}
}
