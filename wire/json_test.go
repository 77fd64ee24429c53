package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestParseJSON(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, c := range []struct {
		name, in string
		bad      string // "": valid
	}{
		{"object", `{"a":1,"b":[true,false,null,"x"],"c":{}}`, ""},
		{"spaces", " \t\r\n{ \"a\" : 1 , \"b\" : [ ] } \n", ""},
		{"numbers", `[0,-0,1.5,-12.25,1e9,1E-9,0.0001,123456789012345678901234567890]`, ""},
		{"escapes", `"\"\\\/\b\f\n\r\t\u00e9\uD83D\uDE00"`, ""},
		{"deep as may be", deep(MaxDepth), ""},

		{"empty", ``, "unexpected end at offset 0"},
		{"spaces alone", `  `, "unexpected end at offset 2"},
		{"two values", `{} {}`, "text after the value at offset 3"},
		{"byte order mark", "\ufeff{}", "unexpected character at offset 0"},
		{"not UTF-8", "\"\xff\"", "not UTF-8"},
		{"cut short", `{"a":`, "unexpected end at offset 5"},
		{"cut in a string", `"abc`, "unexpected end at offset 4"},
		{"cut in an escape", `"\`, "unexpected end at offset 1"},
		{"trailing comma", `[1,]`, "unexpected character at offset 3"},
		{"comma in an object", `{"a":1,}`, "expected a name at offset 7"},
		{"no colon", `{"a" 1}`, "expected a colon at offset 5"},
		{"no comma", `[1 2]`, "expected a comma at offset 3"},
		{"single quotes", `{'a':1}`, "expected a name at offset 1"},
		{"leading zero", `[01]`, "expected a comma at offset 2"},
		{"plus", `+1`, "unexpected character at offset 0"},
		{"no digit", `-`, "bad number at offset 1"},
		{"no fraction", `1.`, "bad number at offset 2"},
		{"no exponent", `1e+`, "bad number at offset 3"},
		{"not a number", `NaN`, "unexpected character at offset 0"},
		{"bad word", `nul`, "unexpected character at offset 0"},
		{"control character", "\"a\nb\"", "control character in a string at offset 2"},
		{"bad escape", `"\x41"`, "bad escape at offset 1"},
		{"bad hex", `"\u12g4"`, "bad escape at offset 1"},
		{"lone high surrogate", `"\ud800"`, "lone surrogate at offset 7"},
		{"lone low surrogate", `"\udc00x"`, "lone surrogate at offset 7"},
		{"high after high", `"\ud800\ud800"`, "lone surrogate at offset 7"},
		{"name twice", `{"a":1,"a":2}`, "name given twice at offset 10"},
		{"name twice by escape", `{"a":1,"\u0061":2}`, "name given twice at offset 15"},
		{"name twice but for case", `{"action":1,"Action":2}`, "name given twice at offset 20"},
		{"case inside", `{"x":{"a":1,"A":2}}`, ""},
		{"too deep", deep(MaxDepth + 1), "nested too deep at offset 16"},
		{"very deep", strings.Repeat("[", 20000), "nested too deep at offset 16"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseJSON([]byte(c.in))
			switch {
			case c.bad == "" && err != nil:
				t.Errorf("got %v", err)
			case c.bad != "" && (err == nil || err.Error() != "bad JSON: "+c.bad):
				t.Errorf("got %v, want bad JSON: %s", err, c.bad)
			case c.bad != "" && !errors.Is(err, ErrJSON):
				t.Errorf("%v is not ErrJSON", err)
			}
		})
	}
}

// TestManyNames repeats a name among enough names that the map is used.
func TestManyNames(t *testing.T) {
	object := func(last string) []byte {
		b := []byte{'{'}
		for i := range 40 {
			b = append(b, `"`+strings.Repeat("k", i+1)+`":0,`...)
		}
		return append(b, `"`+last+`":0}`...)
	}
	for last, good := range map[string]bool{"other": true, "kkk": false, "KkK": false, "\u212akk": false} {
		if _, err := ParseJSON(object(last)); (err == nil) != good {
			t.Errorf("with %q: %v", last, err)
		}
	}
	nested := append(append([]byte(`{"x":`), object("KkK")...), '}')
	if _, err := ParseJSON(nested); err != nil {
		t.Errorf("names that differ by case, inside: %v", err)
	}
}

func TestValues(t *testing.T) {
	v, err := ParseJSON([]byte(`{"n": -1.50 ,"s":"a\u00e9\uD83D\uDE00","t":true,"l":[1,"2"],"z":null}`))
	if err != nil {
		t.Fatal(err)
	}
	n, s, l := v.Get("n"), v.Get("s"), v.Get("l")
	if n.Kind != Number || n.Text != "-1.50" || string(n.Raw) != "-1.50" {
		t.Errorf("number: got %+v", n)
	}
	if s.Text != "aé😀" || string(s.Raw) != `"a\u00e9\uD83D\uDE00"` {
		t.Errorf("string: got %q, raw %s", s.Text, s.Raw)
	}
	if b := v.Get("t"); b.Kind != Bool || !b.True {
		t.Errorf("bool: got %+v", b)
	}
	if l.Kind != Array || len(l.Items) != 2 || string(l.Raw) != `[1,"2"]` {
		t.Errorf("array: got %+v", l)
	}
	if z, none := v.Get("z"), v.Get("N"); z.Kind != Null || none.Kind != Absent {
		t.Errorf("got kinds %d and %d for null and for nothing", z.Kind, none.Kind)
	}
}

func TestAppendString(t *testing.T) {
	for in, want := range map[string]string{
		"":                     `""`,
		"GGAL|BYMA|24hs":       `"GGAL|BYMA|24hs"`,
		"a\"b\\c":              `"a\"b\\c"`,
		"line\nbreak\ttab\x00": `"line\nbreak\u0009tab\u0000"`,
		"é\u2028😀\x7f":         "\"é\u2028😀\\u007f\"",
		"\xff":                 `"` + "\ufffd" + `"`,
	} {
		if got := string(AppendString(nil, in)); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

// FuzzJSON compares ParseJSON with encoding/json: ParseJSON accepts nothing that encoding/json
// rejects, rejects only what its comment lists, and parses to the same values.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{
		`{"action":"auth_token","token":"x"}`, `[1,-2.5e+10,"\ud83d\ude00",null,true]`,
		`{"a":{"b":{"c":[]}}}`, `{"a":1,"A":2}`, `"\ud800"`, "\xff", `{"a":1,"a":1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := ParseJSON(data)
		if err == nil {
			if !json.Valid(data) {
				t.Fatalf("took %q, which is not JSON", data)
			}
			same(t, &v, data)
			return
		}
		if !json.Valid(data) {
			return
		}
		text := err.Error()
		switch {
		case strings.Contains(text, "not UTF-8") && !utf8.Valid(data):
		case strings.Contains(text, "nested too deep") && deepest(t, data) > MaxDepth:
		case strings.Contains(text, "lone surrogate") && bytes.Contains(bytes.ToLower(data), []byte(`\ud`)):
		case strings.Contains(text, "name given twice") && namesTwice(t, data):
		default:
			t.Errorf("refused %q: %v", data, err)
		}
	})
}

// same compares a value with the result of encoding/json.
func same(t *testing.T, v *Value, data []byte) {
	t.Helper()
	switch v.Kind {
	case String:
		var s string
		if err := json.Unmarshal(data, &s); err != nil || s != v.Text {
			t.Errorf("%q: got %q, want %q (%v)", data, v.Text, s, err)
		}
	case Number:
		var n json.Number
		if err := json.Unmarshal(data, &n); err != nil || n.String() != v.Text {
			t.Errorf("%q: got %s, want %s (%v)", data, v.Text, n, err)
		}
	case Array:
		var list []json.RawMessage
		if err := json.Unmarshal(data, &list); err != nil || len(list) != len(v.Items) {
			t.Fatalf("%q: got %d items, want %d (%v)", data, len(v.Items), len(list), err)
		}
		for i := range list {
			same(t, &v.Items[i], list[i])
		}
	case Object:
		var m map[string]json.RawMessage
		if err := json.Unmarshal(data, &m); err != nil || len(m) != len(v.Fields) {
			t.Fatalf("%q: got %d members, want %d (%v)", data, len(v.Fields), len(m), err)
		}
		for i := range v.Fields {
			same(t, &v.Fields[i].Value, m[v.Fields[i].Name])
		}
	}
}

func deepest(t *testing.T, data []byte) int {
	depth, most := 0, 0
	tokens(t, data, func(tok json.Token) {
		switch tok {
		case json.Delim('['), json.Delim('{'):
			depth++
			most = max(most, depth)
		case json.Delim(']'), json.Delim('}'):
			depth--
		}
	})
	return most
}

// namesTwice reports whether an object has a duplicate name, or the outermost object has two names
// that differ only in case.
func namesTwice(t *testing.T, data []byte) bool {
	type level struct {
		object, value bool // value: a name was read and its value follows
		names         []string
	}
	var open []level
	found := false
	tokens(t, data, func(tok json.Token) {
		if tok == json.Delim(']') || tok == json.Delim('}') {
			open = open[:len(open)-1]
			return
		}
		if n := len(open); n > 0 && open[n-1].object {
			top := &open[n-1]
			if name, isName := tok.(string); isName && !top.value {
				found = found || slices.ContainsFunc(top.names, func(o string) bool {
					return o == name || n == 1 && strings.EqualFold(o, name)
				})
				top.names, top.value = append(top.names, name), true
				return
			}
			top.value = false
		}
		if tok == json.Delim('[') || tok == json.Delim('{') {
			open = append(open, level{object: tok == json.Delim('{')})
		}
	})
	return found
}

func tokens(t *testing.T, data []byte, f func(json.Token)) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		f(tok)
	}
}
