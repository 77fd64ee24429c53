package wire

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ruedahq/rueda/market"
)

func TestSim(t *testing.T) {
	for _, c := range []struct {
		in         string
		fault      string
		instrument string
		reason     Reason
		msg        string
	}{
		{`"fault":"gap"`, "gap", "||", "", ""},
		{`"fault":"gap","instrument":"FAKE|SIM|CI","id":7`, "gap", "FAKE|SIM|CI", "", ""},
		{`"fault":"gap","instrument":null`, "gap", "||", "", ""},
		{`"fault":"bust"`, "cancel", "||", "", ""},
		{`"fault":"drain"`, "restart", "||", "", ""},
		{`"fault":"halt","later":{"a":1}`, "halt", "||", "", ""},
		{`"id":{},"fault":"gap"`, "", "", BadField, "id must be"},
		{`"id":1`, "", "", BadField, "fault must be the name of a fault, a string"},
		{`"fault":null`, "", "", BadField, "a string"},
		{`"fault":["gap"]`, "", "", BadField, "a string"},
		{`"fault":""`, "", "", BadField, "fault must be the name of a fault"},
		{`"fault":"bad checksum"`, "", "", BadField, `There is no fault "bad checksum"; the nearest is bad_checksum`},
		{`"fault":"token-expiry"`, "", "", BadField, "the nearest is token_expiry"},
		{`"fault":"Halt"`, "", "", BadField, "the nearest is halt"},
		{`"fault":"drian"`, "", "", BadField, "the nearest is drain"},
		{`"fault":"crossedbook"`, "", "", BadField, "the nearest is crossed_book"},
		{`"fault":"checksum"`, "", "", BadField, "the nearest is bad_checksum"},
		{`"fault":"<\u0000>"`, "", "", BadField, `There is no fault "<\x00>"`},
		{`"fault":"` + strings.Repeat("gap", 99) + `"`, "", "", BadField, "fault must be the name of a fault"},
		{`"fault":"gap","others":false`, "gap", "||", "", ""},
		{`"fault":"gap","others":1`, "", "", BadField, "others must be true or false"},
		{`"fault":"halt","others":true`, "", "", BadField, "others cannot be used with halt"},
		{`"fault":"gap","instrument":7`, "", "", BadField, "instrument must be an identifier, a string"},
		{`"fault":"gap","instrument":""`, "", "", BadInstrument, ""},
		{`"fault":"gap","instrument":"FAKE"`, "", "", BadInstrument, ""},
		{`"fault":"gap","instrument":"*|SIM|*"`, "", "", BadInstrument, ""},
		{`"fault":"stall","instrument":"FAKE|SIM|CI"`, "", "", BadField, "instrument cannot be used with stall, which affects the whole connection"},
		{`"fault":"continuous"`, "open", "||", "", ""},
		{`"fault":"speed"`, "speed", "||", "", ""},
		{`"fault":"speed","speed":null`, "speed", "||", "", ""},
		{`"fault":"speed","instrument":"FAKE|SIM|CI"`, "", "", BadField, "instrument cannot be used with speed, which affects the whole market"},
		{`"fault":"halt","speed":2`, "", "", BadField, "speed cannot be used with halt"},
		{`"fault":"speed","speed":"2"`, "", "", BadField, "speed must be a number from 0.1 to 1000"},
		{`"fault":"speed","speed":0`, "", "", BadField, "speed must be a number"},
		{`"fault":"speed","speed":-1`, "", "", BadField, "speed must be a number"},
		{`"fault":"speed","speed":1000.5`, "", "", BadField, "speed must be a number"},
		{`"fault":"speed","speed":1e999`, "", "", BadField, "speed must be a number"},
		{`"fault":"speed","speed":[2]`, "", "", BadField, "speed must be a number"},
	} {
		s, f := read(t, `{"action":"sim",`+c.in+`}`).Sim()
		if s.Others {
			t.Errorf("%s: of others", c.in)
		}
		if reason(f) != c.reason {
			t.Errorf("%s: got %v, want %q", c.in, f, c.reason)
			continue
		}
		if f != nil {
			if !strings.Contains(f.Msg, c.msg) {
				t.Errorf("%s: got %q, want %q in it", c.in, f.Msg, c.msg)
			}
			continue
		}
		if s.Fault.Name != c.fault || s.Instrument.String() != c.instrument {
			t.Errorf("%s: got %s of %s, want %s of %s", c.in, s.Fault.Name, s.Instrument, c.fault, c.instrument)
		}
	}
}

func TestSimOfOthers(t *testing.T) {
	s, f := read(t, `{"action":"sim","fault":"disconnect","others":true}`).Sim()
	if f != nil || !s.Others {
		t.Errorf("got %+v, %v", s, f)
	}
}

// TestSimSpeed checks that a speed is read and written with all its digits.
func TestSimSpeed(t *testing.T) {
	for _, speed := range []string{"0.1", "1", "2.5", "1000"} {
		s, f := read(t, `{"action":"sim","fault":"speed","speed":`+speed+`}`).Sim()
		if f != nil || s.Speed.String() != speed {
			t.Errorf("%s: got %v, %v", speed, s.Speed, f)
		}
	}
	if got := string(AppendSim(nil, nil, SimSpeed, "m", 25*market.Scale/10)); got != `{"type":"Sim","code":200,"msg":"m","fault":"speed","speed":2.5}` {
		t.Error(got)
	}
}

// TestSimFaults checks that every fault is found by its names and that the names are valid words.
func TestSimFaults(t *testing.T) {
	seen := map[string]bool{"": true}
	_, unknown := FindSimFault("?")
	for _, want := range SimFaults() {
		for _, word := range []string{want.Name, want.Alias} {
			if word != "" && (seen[word] || !regexp.MustCompile(`^[a-z]+([_-][a-z]+)*$`).MatchString(word)) {
				t.Errorf("%q comes twice, or is no word of lower-case letters", word)
			}
			seen[word] = true
			if got, f := FindSimFault(word); word != "" && (f != nil || got != want) {
				t.Errorf("%s: got %+v, %v", word, got, f)
			}
		}
		if !strings.Contains(unknown.Hint, want.Name) {
			t.Errorf("the hint leaves out %s: %s", want.Name, unknown.Hint)
		}
		ofAll := !want.OwnConnection && !want.TakesInstrument
		if want.Description == "" || ofAll != (want.Name == "kill_leader" || want.Name == "speed") {
			t.Errorf("%+v", want)
		}
	}
	if _, f := FindSimFault(""); f == nil {
		t.Error("no word is a fault")
	}
}

// TestCorruptChecksum checks that only K changes and that the result is still a message.
func TestCorruptChecksum(t *testing.T) {
	_, messages := golden(t, "testdata/messages.golden")
	books := 0
	for _, m := range messages {
		if !strings.HasPrefix(m, `{"type":"O",`) {
			continue
		}
		books++
		got := string(CorruptChecksum([]byte("-"), []byte(m)))
		head, k, _ := strings.Cut(m, `,"K":`)
		other, ok := strings.CutPrefix(got, "-"+head+`,"K":`)
		if !ok || other == k || !regexp.MustCompile(`^\d{1,10}}$`).MatchString(other) {
			t.Errorf("got %s of %s", got, m)
		}
		if again := string(CorruptChecksum(nil, []byte(got[1:]))); again != m {
			t.Errorf("back it is %s of %s", again, m)
		}
	}
	if books == 0 {
		t.Error("no book among the messages")
	}
	for _, m := range []string{`{"type":"O"}`, `{"type":"O","K":`, `{"type":"O","K":12`, `{"K":-1}`, `{"a":1,"K":99999999999}`, ``} {
		if got := string(CorruptChecksum(nil, []byte(m))); got != m {
			t.Errorf("%q became %q", m, got)
		}
	}
}

// FuzzSim parses any message as a sim request. A rejection can be encoded, and an accepted fault is
// on the list.
func FuzzSim(f *testing.F) {
	for _, s := range []string{
		`{"action":"sim","fault":"gap","instrument":"FAKE|SIM|CI","id":7}`, `{"action":"sim","fault":"clock skew"}`,
		`{"action":"sim","fault":"halt","instrument":"*|SIM|*"}`, `{"action":"sim","fault":"\ud83d\ude00"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, _ := ReadMessage(data, nil)
		s, fault := m.Sim()
		if fault != nil {
			if e := AppendError(nil, fault, m.ID, nil); !json.Valid(e) || !utf8.Valid(e) || len(fault.Msg) > 400 {
				t.Errorf("error is not JSON, or too long: %s", e)
			}
			return
		}
		if got, f := FindSimFault(s.Fault.Name); f != nil || got != s.Fault {
			t.Errorf("took %+v", s)
		}
		if id := s.Instrument; s.Instrument.Symbol != "" && (id.IsPattern() || !id.Valid()) {
			t.Errorf("took the instrument %q", id)
		}
		CorruptChecksum(nil, data)
	})
}
