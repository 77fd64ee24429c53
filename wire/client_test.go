package wire

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ruedahq/rueda/market"
)

// unknownMembers returns the text of members with different names.
func unknownMembers(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`"m%d":1`, i)
	}
	return strings.Join(list, ",")
}

func TestReadMessage(t *testing.T) {
	for _, c := range []struct {
		name, in   string
		action, id string
		fault      Reason
		badID      bool
	}{
		{"plain", `{"action":"ping"}`, "ping", "", "", false},
		{"id text", `{"action":"ping","id":"a\u0062"}`, "ping", `"a\u0062"`, "", false},
		{"id number", `{"id":-9007199254740992,"action":"ping"}`, "ping", "-9007199254740992", "", false},
		{"id null", `{"action":"ping","id":null}`, "ping", "", "", false},
		{"id of 36 bytes", `{"action":"ping","id":"` + strings.Repeat("x", 36) + `"}`, "ping", `"` + strings.Repeat("x", 36) + `"`, "", false},
		{"id of 37 bytes", `{"action":"ping","id":"` + strings.Repeat("x", 37) + `"}`, "ping", "", "", true},
		{"id too great", `{"action":"ping","id":9007199254740993}`, "ping", "", "", true},
		{"id not whole", `{"action":"ping","id":1.0}`, "ping", "", "", true},
		{"id object", `{"action":"ping","id":{}}`, "ping", "", "", true},
		{"not JSON", `ping`, "", "", BadJSON, false},
		{"array", `["ping"]`, "", "", BadJSON, false},
		{"64 members", `{"action":"ping","x":{` + unknownMembers(100) + `},` + unknownMembers(62) + `}`, "ping", "", "", false},
		{"65 members", `{"action":"ping",` + unknownMembers(64) + `}`, "", "", BadJSON, false},
		{"no action", `{"id":3}`, "", "3", BadMessage, false},
		{"action number", `{"id":3,"action":1}`, "", "3", BadMessage, false},
		{"action null", `{"action":null}`, "", "", BadMessage, false},
		{"action of another case", `{"Action":"ping"}`, "", "", BadMessage, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, f := ReadMessage([]byte(c.in), nil)
			if got := reason(f); got != c.fault {
				t.Fatalf("got fault %q, want %q", got, c.fault)
			}
			if m.Action != c.action || string(m.ID) != c.id {
				t.Errorf("got action %q, id %s; want %q, %s", m.Action, m.ID, c.action, c.id)
			}
			if f := m.Fields(); (f != nil) != c.badID {
				t.Errorf("fields: got %v", f)
			}
		})
	}
}

func reason(f *Fault) Reason {
	if f == nil {
		return ""
	}
	return f.Reason
}

func read(t *testing.T, text string) *Message {
	t.Helper()
	m, f := ReadMessage([]byte(text), nil)
	if f != nil {
		t.Fatal(f)
	}
	return &m
}

func TestAuthToken(t *testing.T) {
	for _, c := range []struct {
		in    string
		want  AuthToken
		fault Reason
	}{
		{`{"action":"auth_token","token":"x"}`, AuthToken{Token: "x"}, ""},
		{`{"action":"auth_token","token":"x","session":"Bot.1_a-b","slow":"strict"}`, AuthToken{"x", "Bot.1_a-b", SlowStrict}, ""},
		{`{"action":"auth_token","token":"x","session":null,"slow":"conflate"}`, AuthToken{"x", "", SlowConflate}, ""},
		{`{"action":"auth_token"}`, AuthToken{}, BadField},
		{`{"action":"auth_token","token":""}`, AuthToken{}, ""},
		{`{"action":"auth_token","token":"x","session":""}`, AuthToken{}, BadField},
		{`{"action":"auth_token","token":"x","slow":""}`, AuthToken{}, BadField},
		{`{"action":"auth_token","token":null}`, AuthToken{}, BadField},
		{`{"action":"auth_token","token":["x"]}`, AuthToken{}, BadField},
		{`{"action":"auth_token","token":"x","session":"a b"}`, AuthToken{}, BadField},
		{`{"action":"auth_token","token":"x","session":"é"}`, AuthToken{}, BadField},
		{`{"action":"auth_token","token":"x","session":"` + strings.Repeat("a", 37) + `"}`, AuthToken{}, BadField},
		{`{"action":"auth_token","token":"x","session":5}`, AuthToken{}, BadField},
		{`{"action":"auth_token","token":"x","slow":true}`, AuthToken{}, BadField},
		{`{"action":"auth_token","token":"x","slow":"drop"}`, AuthToken{}, UnsupportedOption},
		{`{"action":"auth_token","token":"x","slow":"drop","session":"a b"}`, AuthToken{}, BadField},
		{`{"action":"auth_token","token":"x","id":[]}`, AuthToken{}, BadField},
	} {
		a, f := read(t, c.in).AuthToken()
		if reason(f) != c.fault {
			t.Errorf("%s: got fault %v, want %q", c.in, f, c.fault)
		}
		if f == nil && a != c.want {
			t.Errorf("%s: got %+v, want %+v", c.in, a, c.want)
		}
	}
}

func TestSubscribe(t *testing.T) {
	yes := true
	for _, c := range []struct {
		name, in string
		want     Subscribe
	}{
		{
			"defaults", `"trades":["A|B|C","A|B|C","D|E|F"],"quotes":[]`,
			Subscribe{
				Lists: [NumChannels][]string{{"A|B|C", "D|E|F"}, {}}, Given: [NumChannels]bool{true, true},
				Depth: 5, Snapshot: true, Interval: market.Minute,
			},
		},
		{
			"options", `"order_book":["A|B|C"],"depth":0,"conflate":"250ms","snapshot":false,"replace":true,"alive":true`,
			Subscribe{
				Lists: [NumChannels][]string{OrderBook: {"A|B|C"}}, Given: [NumChannels]bool{OrderBook: true},
				Conflate: 250, Replace: true, Alive: &yes, Interval: market.Minute,
			},
		},
		{
			"nulls", `"status":["A|B|C"],"trades":null,"depth":null,"conflate":null,"snapshot":null,"resume":null,"start":null,"alive":null`,
			Subscribe{
				Lists: [NumChannels][]string{Status: {"A|B|C"}}, Given: [NumChannels]bool{Status: true},
				Depth: 5, Snapshot: true, Interval: market.Minute,
			},
		},
		{
			"bars", `"bars":["A|B|C","A|B|C|1d","A|B|C|7m"],"summary":[]`,
			Subscribe{
				Lists: [NumChannels][]string{Summary: {}, Bars + Channel(market.Minute): {"A|B|C", "A|B|C|7m"}, Bars + Channel(market.Day): {"A|B|C|1d"}},
				Given: [NumChannels]bool{Summary: true, Bars + Channel(market.Minute): true, Bars + Channel(market.Day): true},
				Depth: 5, Snapshot: true, Interval: market.Minute,
			},
		},
		{
			"bars of an interval, resumed", `"bars":["A|B|C","A|B|C|1s"],"interval":"15m","resume":{"epoch":"e1","bars":{"A|B|C":7,"A|B|C|1s":900}}`,
			Subscribe{
				Lists: [NumChannels][]string{Bars + Channel(market.QuarterHour): {"A|B|C"}, Bars + Channel(market.Second): {"A|B|C|1s"}},
				Given: [NumChannels]bool{Bars + Channel(market.QuarterHour): true, Bars + Channel(market.Second): true},
				Depth: 5, Snapshot: true, Interval: market.QuarterHour,
				Resume: &Resume{Epoch: "e1", Seen: [NumChannels]map[string]uint64{
					Bars + Channel(market.QuarterHour): {"A|B|C": 7}, Bars + Channel(market.Second): {"A|B|C": 900},
				}},
			},
		},
		{
			"no bars of an interval", `"bars":[],"interval":"1d"`,
			Subscribe{Given: [NumChannels]bool{Bars + Channel(market.Day): true}, Depth: 5, Snapshot: true, Interval: market.Day},
		},
		{
			"resume", `"trades":["A|B|C","D|E|F"],"resume":{"epoch":"e1","position":"e1:5","trades":{"A|B|C":7},"status":null}`,
			Subscribe{
				Lists: [NumChannels][]string{{"A|B|C", "D|E|F"}}, Given: [NumChannels]bool{true},
				Depth: 5, Snapshot: true, Interval: market.Minute,
				Resume: &Resume{Epoch: "e1", Position: "e1:5", Seen: [NumChannels]map[string]uint64{{"A|B|C": 7}}},
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, f := read(t, `{"action":"subscribe",`+c.in+`}`).Subscribe()
			if f != nil {
				t.Fatal(f)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestSubscribeFaults(t *testing.T) {
	for in, want := range map[string]Reason{
		``:                                    BadField,
		`"candles":["A|B|C"]`:                 BadField,
		`"trades":"A|B|C"`:                    BadField,
		`"trades":{}`:                         BadField,
		`"trades":["A|B|C",1]`:                BadField,
		`"trades":[["A|B|C"]]`:                BadField,
		`"bars":"A|B|C"`:                      BadField,
		`"trades":[],"interval":"1m"`:         BadField, // only allowed with bars
		`"bars":[],"interval":1`:              BadField,
		`"bars":[],"interval":"2m"`:           UnsupportedOption,
		`"bars":[],"interval":"2m","start":5`: BadField, // types before values
		`"bars":["A|B|C"],"resume":{"epoch":"e","bars":{"A|B|C|1m":1}}`: BadField, // as it is written there
		`"bars":["A|B|C"],"resume":{"epoch":"e","bars":[]}`:             BadField,
		`"trades":[],"depth":"5"`:                                       BadField,
		`"trades":[],"depth":5.0`:                                       UnsupportedOption,
		`"trades":[],"depth":-1`:                                        UnsupportedOption,
		`"trades":[],"depth":7`:                                         UnsupportedOption,
		`"trades":[],"conflate":250`:                                    BadField,
		`"trades":[],"conflate":"2s"`:                                   UnsupportedOption,
		`"trades":[],"snapshot":1`:                                      BadField,
		`"trades":[],"replace":"yes"`:                                   BadField,
		`"trades":[],"alive":0`:                                         BadField,
		`"trades":[],"start":5`:                                         BadField,
		`"trades":[],"start":"noon"`:                                    BadField,
		`"trades":[],"depth":7,"start":5`:                               BadField, // types before values
		`"trades":[],"resume":[]`:                                       BadField,
		`"trades":[],"resume":{}`:                                       BadField,
		`"trades":[],"resume":{"epoch":""}`:                             BadField,
		`"trades":[],"resume":{"epoch":"e","position":4}`:               BadField,
		`"trades":[],"resume":{"epoch":"e","position":"` + strings.Repeat("p", 129) + `"}`: BadField,
		`"trades":[],"resume":{"epoch":"e","trades":{"A|B|C":1}}`:                          BadField,
		`"trades":["A|B|C"],"resume":{"epoch":"e","trades":{"A|B|C":-1}}`:                  BadField,
		`"trades":["A|B|C"],"resume":{"epoch":"e","trades":{"A|B|C":"1"}}`:                 BadField,
		`"trades":["A|B|C"],"resume":{"epoch":"e","trades":["A|B|C"]}`:                     BadField,
		`"trades":["A|B|C"],"resume":{"epoch":"e"},"start":"open"`:                         BadField,
		`"trades":[],"id":true`: BadField,
	} {
		m := read(t, strings.Replace(`{`+in+`,"action":"subscribe"}`, `{,`, `{`, 1))
		if _, f := m.Subscribe(); reason(f) != want {
			t.Errorf("%s: got %v, want %s", in, f, want)
		}
	}
}

func TestParseIdentifier(t *testing.T) {
	for in, want := range map[string]Reason{
		"GGAL|BYMA|24hs": "", "*|BYMA|*": "", "*|*|*": "",
		"GGAL|BYMA|24hs|1m": BadInstrument, "GGAL|BYMA": BadInstrument, "GGAL|BYMA|24hs|x": BadInstrument, "GGAL||24hs": BadInstrument,
		"G*|BYMA|CI": BadInstrument, " GGAL|BYMA|CI": BadInstrument, `G\|A|BYMA|CI`: BadInstrument, "": BadInstrument,
	} {
		if _, f := ParseIdentifier(Trades, in); reason(f) != want {
			t.Errorf("%q: got %v, want %q", in, f, want)
		}
	}
	for in, want := range map[string]Reason{
		"GGAL|BYMA|24hs": "", "GGAL|BYMA|24hs|1m": "", "*|BYMA|*|1d": "",
		"GGAL|BYMA|24hs|1M": BadInstrument, "GGAL|BYMA|24hs|": BadInstrument, "GGAL|BYMA|1m": "", "GGAL|BYMA|24hs|1m|1m": BadInstrument, "|1m": BadInstrument,
	} {
		id, f := ParseIdentifier(Bars, in)
		if reason(f) != want || f == nil && strings.Count(id.String(), "|") != 2 {
			t.Errorf("bars %q: got %v %v, want %q", in, id, f, want)
		}
	}
}

// FuzzClientMessage parses any message as every action. An accepted message follows the grammar and
// can be echoed.
func FuzzClientMessage(f *testing.F) {
	for _, s := range []string{
		`{"action":"auth_token","token":"x","session":"a","slow":"strict","id":1}`,
		`{"action":"subscribe","id":"q","trades":["GGAL|BYMA|24hs"],"order_book":["*|BYMA|*"],"depth":10,"conflate":"1s","alive":true}`,
		`{"action":"subscribe","trades":["A|B|C"],"resume":{"epoch":"e","position":"e:1","trades":{"A|B|C":12}}}`,
		`{"action":"subscribe","bars":["A|B|C","A|B|C|1s"],"interval":"1h","resume":{"epoch":"e","bars":{"A|B|C|1s":12,"A|B|C":3}}}`,
		`{"action":"unsubscribe","quotes":["A|B|C","A|B|C"]}`, `{"action":"ping","id":9007199254740992}`, `[]`, `{"id":"\ud83d\ude00"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, fault := ReadMessage(data, nil)
		if fault != nil && fault.Reason != BadJSON && fault.Reason != BadMessage {
			t.Errorf("fault %v", fault)
		}
		if len(m.ID) > 0 && (len(m.ID) > 2+6*36 || !json.Valid(m.ID)) {
			t.Errorf("id %q", m.ID)
		}
		a, fault := m.AuthToken()
		if fault == nil && (a.Token == "" || len(a.Session) > 36) {
			t.Errorf("auth_token %+v", a)
		}
		s, fault := m.Subscribe()
		if fault != nil {
			if e := AppendError(nil, fault, m.ID, nil); !json.Valid(e) || !utf8.Valid(e) {
				t.Errorf("error is not JSON: %s", e)
			}
			return
		}
		switch s.Depth {
		case 0, 1, 5, 10, 25:
		default:
			t.Errorf("depth %d", s.Depth)
		}
		for c, list := range s.Lists {
			seen := map[string]bool{}
			for _, id := range list {
				if seen[id] {
					t.Errorf("%s names %q twice", Channel(c), id)
				}
				seen[id] = true
				if item, f := ParseIdentifier(Channel(c), id); f == nil && !strings.HasPrefix(id, item.String()) {
					t.Errorf("%q became %q", id, item)
				}
			}
			if s.Resume != nil {
				for id, n := range s.Resume.Seen[c] {
					if i, _ := Channel(c).Interval(); !seen[id] && !seen[id+"|"+i.String()] || n >= 1<<53 {
						t.Errorf("resume of %q from %s", id, strconv.FormatUint(n, 10))
					}
				}
			}
		}
	})
}

// TestMessageValues checks that a message knows how many JSON values it has, even if it is refused.
func TestMessageValues(t *testing.T) {
	for text, want := range map[string]int{
		`{"action":"ping"}`: 2,
		`{"action":"ping","x":[1,[true,null],{"a":"b"}]}`: 9,
		`[1,2]`:     3,
		`{"x":[1,2`: 4,
		``:          0,
		"\xff":      0,
	} {
		if m, _ := ReadMessage([]byte(text), nil); m.Values != want {
			t.Errorf("%s: %d values, want %d", text, m.Values, want)
		}
	}
}

// TestTooManyMembers checks that the error states the limit.
func TestTooManyMembers(t *testing.T) {
	_, f := ReadMessage([]byte(`{"action":"ping",`+unknownMembers(64)+`}`), nil)
	if f == nil || !strings.Contains(f.Msg+f.Hint, "more than 64 members") {
		t.Errorf("%+v", f)
	}
}
