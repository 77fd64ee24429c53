package server

import (
	"strings"
	"testing"
)

// TestDiffers compares messages with patterns.
func TestDiffers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ pattern, message, want string }{
		{`{"type":"Success","code":200,...}`, `{"code":200,"new":1,"type":"Success"}`, ""},
		{`{"type":"Success",...,"id":1,...}`, `{"id":1,"type":"Success"}`, ""},
		{`{...,"id":1}`, `{"id":2}`, "id is 2, not 1"},
		{`{"type":"Error","code":401,"msg":"No"}`, `{"type":"Error","code":401,"msg":"Other"}`, ""},
		{`{"type":"Error","msg":"No"}`, `{"type":"Error"}`, "the message has no member msg"},
		{`{"reason":"bad_json"}`, `{"reason":"bad_field"}`, `reason is "bad_field", not "bad_json"`},
		{`{"name":"id must be ..."}`, `{"name":"id must be short"}`, ""},
		{`{"name":"a,...}b"}`, `{"name":"a,x}b"}`, ""},
		{`{"trades":["A","B"]}`, `{"trades":["A"]}`, "trades has 1 elements"},
		{`{"trades":["A"]}`, `{"trades":["A","B"]}`, "trades has 2 elements, not 1"},
		{`{"trades":[...]}`, `{"trades":["A","B"]}`, ""},
		{`{"rejected":[{"code":404,...},{"code":400}]}`, `{"rejected":[{"code":404},{"code":401}]}`, "rejected[1].code is 401, not 400"},
		{`{"lost":{"from":1,...}}`, `{"lost":[]}`, "lost is not an object"},
		{`{"retry":false}`, `{"retry":true}`, "retry is true, not false"},
		{`{"id":1.0}`, `{"id":1}`, "id is 1, not 1.0"},
		{`{"type":"T","list":["a",...`, `{"type":"T","list":["a","b"],"N":1}`, ""},
		{`{}`, `{`, "it is not JSON"},
	} {
		got, err := differs(tc.pattern, tc.message, false)
		if err != nil || got != tc.want {
			t.Errorf("%s, %s: %q, %v, want %q", tc.pattern, tc.message, got, err, tc.want)
		}
	}
}

// TestConversations checks that all patterns can be compared.
func TestConversations(t *testing.T) {
	t.Parallel()
	all, err := Conversations()
	if err != nil || len(all) < 100 {
		t.Fatalf("%d conversations, %v", len(all), err)
	}
	for _, c := range all {
		if c.Rule == "" || len(c.Steps) == 0 {
			t.Errorf("%s: %+v", c.Name, c)
		}
		full := Gateway{
			tokens:      map[string]login{"demo": {}, "demo2": {}, "basic": {}, "revoked": {}},
			instruments: map[string]string{ggal24: "a", ggalCI: "a", al30CI: "a", fakeCI: "a", indexCI: "a"},
		}
		if c.needs(&full) != "" {
			continue
		}
		for _, st := range c.Steps {
			if st.Verb != "<" || !strings.HasPrefix(st.Rest, "{") {
				continue
			}
			if _, err := parseJSON(strict(st.Rest)); err != nil {
				t.Errorf("%s:%d: %v", c.Name, st.Line, err)
			}
		}
	}
}
