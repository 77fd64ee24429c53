package config

import (
	"strings"
	"testing"
)

func TestDepth(t *testing.T) {
	in, deep := maxDepth, maxDepth+1
	for _, tc := range []struct {
		what, text string
		line       int // 0: not too deep
	}{
		{"arrays", "x = 1\na = " + strings.Repeat("[", in) + strings.Repeat("]", in), 0},
		{"deep arrays", "x = 1\na = " + strings.Repeat("[", deep) + strings.Repeat("]", deep), 2},
		{"deep tables", "\n\n" + strings.Repeat("a={", 40_000), 3},
		{"deep dotted key", "a" + strings.Repeat(".a", 40_000) + " = 1", 1},
		{"deep header", "[a" + strings.Repeat(".a", deep) + "]", 1},
		{"dotted keys in tables", strings.Repeat("a.b.c.d={", 5), 1},
		{"quoted dots", `"` + strings.Repeat(".", 99) + `" = '` + strings.Repeat("[", 99) + `'`, 0},
		{"long strings", `a = """` + strings.Repeat("[\n", 99) + `\""""` + "\nb = '''" + strings.Repeat("{\\", 99) + "'''", 0},
		{"after a string", "a = \"\\\\\" # \"\nb = " + strings.Repeat("[", deep), 2},
		{"comments", strings.Repeat("# [[[ {{{ ...\n", 99), 0},
		{"after a comment", "# \"\na = " + strings.Repeat("[", deep), 2},
		{"many keys", strings.Repeat("[a.b.c]\nd.e = 1.5 # said\n", 99), 0},
		{"many items", "a = [" + strings.Repeat("{ b.c = 1.5, d = [1.5, 2.5] },\n", 99) + "]", 0},
		{"not TOML", "]]]}}}\n\"", 0},
	} {
		if line, ok := tooDeep(tc.text); ok != (tc.line > 0) || line != tc.line {
			t.Errorf("%s: line %d, %v; want line %d", tc.what, line, ok, tc.line)
		}
	}
	_, err := decode("deep.toml", []byte("\n"+strings.Repeat("a={b=", 100_000)), &mainFile{})
	if err == nil || err.Error() != "deep.toml:2: nests deeper than 8 levels" {
		t.Errorf("error %v", err)
	}
}
