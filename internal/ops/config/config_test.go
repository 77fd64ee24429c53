package config

import (
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/ruedahq/rueda/market"
)

func TestLocate(t *testing.T) {
	const text = `# a comment with [brackets] and = signs
top = """
lisen = "not a key"
""" # [nor.this]

[a]
"quoted key" = 1
b.c = [ 1, [2,
  3], "]" ]
d = { e = 1, f = { g = "}" } }

[[list]]
x = 1979-05-27 07:32:00
[[list]]
[list.deep]
x = '#'
y = [
  { z = 1 },
  { z = 2 }, # last
]
`
	want := map[string]int{
		"top": 2, "a": 6, `a."quoted key"`: 7,
		"a.b": 8, "a.b.c": 8, "a.b.c[0]": 8, "a.b.c[1]": 8, "a.b.c[1][0]": 8, "a.b.c[1][1]": 9, "a.b.c[2]": 9,
		"a.d": 10, "a.d.e": 10, "a.d.f": 10, "a.d.f.g": 10,
		"list[0]": 12, "list[0].x": 13, "list[1]": 14, "list[1].deep": 15, "list[1].deep.x": 16,
		"list[1].deep.y": 17, "list[1].deep.y[0]": 18, "list[1].deep.y[0].z": 18,
		"list[1].deep.y[1]": 19, "list[1].deep.y[1].z": 19,
	}
	if got := locate(text); !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// keysOf returns the toml tags of a struct and of the structs in it.
func keysOf(t reflect.Type) []string {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var keys []string
	if t.Kind() == reflect.Struct && t != reflect.TypeFor[instrument]() {
		for i := range t.NumField() {
			keys = append(keys, t.Field(i).Tag.Get("toml"))
			keys = append(keys, keysOf(t.Field(i).Type)...)
		}
	}
	return keys
}

// TestTemplatesNameEveryKey checks that the example files have every key, in use or commented out,
// and that commented keys are valid.
func TestTemplatesNameEveryKey(t *testing.T) {
	for name, into := range map[string]any{
		"rueda.toml": &mainFile{}, "markets.toml": &marketsFile{}, "instruments.toml": &instrumentsFile{},
	} {
		raw, err := templates.ReadFile("templates/" + name)
		if err != nil {
			t.Fatal(err)
		}
		text := string(raw)
		for _, key := range keysOf(reflect.TypeOf(into)) {
			if !regexp.MustCompile(`(?m)^(# )?(` + key + ` = |\[?\[([a-z]+\.)?` + key + `\]\]?$)`).MatchString(text) {
				t.Errorf("%s does not name %s", name, key)
			}
		}
		// An option is a comment with the syntax of one.
		all := regexp.MustCompile(`(?m)^# ([a-z_]+ = \S|\[\[)`).ReplaceAllString(text, "$1")
		doc, err := decode(name, []byte(all), into)
		if err != nil {
			t.Fatal(err)
		}
		if err := doc.err(); err != nil {
			t.Errorf("with everything in use:\n%v", err)
		}
	}
}

func TestExactDecimals(t *testing.T) {
	var f instrumentsFile
	doc, err := decode("x", []byte(`
[[instrument]]
id = "GGAL|BYMA|24hs"
multiplier = 0.1
lot = "123456.78901234"
min_size = 3
tick = [[0, 0.00000001], [1e2, 0.05], [-5, "0.25"]]
`), &f)
	if err != nil || doc.err() != nil {
		t.Fatal(err, doc.err())
	}
	in := f.Instruments[0]
	for got, want := range map[string]string{
		market.Size(in.Multiplier).String():   "0.1",
		market.Size(in.Lot).String():          "123456.78901234",
		market.Size(in.MinSize).String():      "3",
		market.Price(in.Ticks[0][1]).String(): "0.00000001",
		market.Price(in.Ticks[1][0]).String(): "100",
		market.Price(in.Ticks[1][1]).String(): "0.05",
		market.Price(in.Ticks[2][0]).String(): "-5",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestValues(t *testing.T) {
	for _, tc := range []struct {
		into interface{ UnmarshalText([]byte) error }
		text string
		want any // nil: refused
	}{
		{new(duration), "90s", duration(90 * time.Second)},
		{new(duration), "-1s", nil},
		{new(duration), "5", nil},
		{new(duration), "7d", duration(7 * 24 * time.Hour)},
		{new(duration), "1d12h", duration(36 * time.Hour)},
		{new(duration), "d", nil},
		{new(duration), "1.5d", nil},
		{new(duration), "1d-1h", nil},
		{new(duration), "65535d2000000h", nil},
		{new(size), "64KiB", size(65536)},
		{new(size), "7", size(7)},
		{new(size), "64KB", nil},
		{new(size), "-1", nil},
		{new(size), "9223372036854775807GiB", nil},
		{new(clock), "24:00", clock(24 * time.Hour)},
		{new(clock), "09:30", clock(9*time.Hour + 30*time.Minute)},
		{new(clock), "9:30", nil},
		{new(clock), "24:01", nil},
		{new(clock), "10:60", nil},
		{new(weekday), "Sunday", weekday(time.Sunday)},
		{new(weekday), "sun", nil},
		{new(phase), "open", phase(market.Open)},
		{new(phase), "feed_down", nil},
		{new(phase), "unknown", nil},
	} {
		err := tc.into.UnmarshalText([]byte(tc.text))
		got := reflect.ValueOf(tc.into).Elem().Interface()
		if (err == nil) != (tc.want != nil) || err == nil && got != tc.want {
			t.Errorf("%T of %q: got %v, %v; want %v", got, tc.text, got, err, tc.want)
		}
	}
}

// TestWriteAndRead reads the written example; a second write replaces no file.
func TestWriteAndRead(t *testing.T) {
	folder := t.TempDir()
	written, err := Write(folder, false)
	if err != nil {
		t.Fatal(err)
	}
	discard := func(Log) (*slog.Logger, *slog.LevelVar) { return slog.New(slog.DiscardHandler), nil }
	s, err := Read(written[0], discard)
	if err != nil {
		t.Fatal(err)
	}
	if s.Data.Folder != filepath.Join(folder, "data") || len(s.Gateway.Markets) == 0 || len(s.Gateway.Instruments) == 0 || len(s.Gateway.Feeds) == 0 {
		t.Errorf("%+v", s)
	}
	if !s.Users.BuiltIn() || !s.Users.NeedsData() || s.Users.Type != typeLocal {
		t.Errorf("users %+v", s.Users)
	}
	if err := s.Users.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Write(folder, false); err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("written again: %v", err)
	}
}

// TestNothingToRead checks the advice for a missing file; mistakes have none.
func TestNothingToRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "rueda.toml")
	discard := func(Log) (*slog.Logger, *slog.LevelVar) { return slog.New(slog.DiscardHandler), nil }
	var advised *Error
	if _, err := Read(name, discard); !errors.As(err, &advised) || advised.Advice == "" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	write(t, name, "markets = \"nowhere.toml\"\n")
	if _, err := Read(name, discard); errors.As(err, &advised) || err == nil || !strings.Contains(err.Error(), name+":1: markets: ") {
		t.Errorf("no catalogue: %v", err)
	}
	write(t, name, "lisen = 1\n")
	if _, err := Read(name, discard); errors.As(err, &advised) || err == nil || err.Error() != name+":1: lisen: unknown key; did you mean listen?" {
		t.Errorf("a mistake: %v", err)
	}
}

// TestSameAddress checks which pairs of addresses conflict.
func TestSameAddress(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{"127.0.0.1:8080", "127.0.0.1:8080", true}, {"127.0.0.1:8080", ":8080", true}, {"0.0.0.0:8080", "10.0.0.1:8080", true}, {"[::]:8080", "[::1]:8080", true},
		{"127.0.0.1:0", "127.0.0.1:0", false}, {"127.0.0.1:8081", "127.0.0.1:8080", false}, {"127.0.0.1:8080", "10.0.0.1:8080", false}, {"127.0.0.1:8080", "8080", false},
	} {
		if got := sameAddress(tc.a, tc.b); got != tc.want || sameAddress(tc.b, tc.a) != tc.want {
			t.Errorf("%s and %s: %v", tc.a, tc.b, got)
		}
	}
}

// FuzzConfig reads any text as a configuration: no panic, and every mistake has a line of the text.
func FuzzConfig(f *testing.F) {
	names, err := templates.ReadDir("templates")
	if err != nil {
		f.Fatal(err)
	}
	for _, n := range names {
		text, err := templates.ReadFile("templates/" + n.Name())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	scripts, err := os.ReadFile("../cli/testdata/mistakes.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for part := range strings.SplitSeq(string(scripts), "\n-- ") {
		f.Add(part)
	}
	f.Add("a.\"b\\u0021\".c = [{d = 1}, {d = '''x''''}]\n[[a.x]]\n[a.x.y]\nz=1\n")
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Count(text, "\n") + 1
		for _, into := range []any{&mainFile{}, &marketsFile{}, &instrumentsFile{}} {
			doc, err := decode("fuzz.toml", []byte(text), into)
			if err != nil {
				return // not TOML
			}
			for _, err := range doc.mistakes {
				m, ok := err.(*mistake)
				if !ok || m.line < 1 || m.line > lines {
					t.Errorf("mistake without a place: %v", err)
				}
			}
			if c, ok := into.(*mainFile); ok {
				c.check(doc)
				c.settings(doc)
			}
		}
		var tree map[string]any
		if _, err := toml.Decode(text, &tree); err != nil {
			t.Fatal(err)
		}
		located := locate(text)
		for key := range tree {
			if name := joinKey("", key); located[name] == 0 && located[name+"[0]"] == 0 {
				t.Errorf("key %s has no line; found %q", name, slices.Sorted(maps.Keys(located)))
			}
		}
	})
}

// TestPages checks that the console and the packages of the clients are served unless the
// configuration says otherwise, each by a setting of its own.
func TestPages(t *testing.T) {
	for text, want := range map[string][2]bool{
		"": {true, true}, "console = true\nclient_downloads = true": {true, true}, "console = false": {false, true}, "client_downloads = false": {true, false},
	} {
		var c mainFile
		doc, err := decode("rueda.toml", []byte(text), &c)
		if err != nil {
			t.Fatal(err)
		}
		g := c.settings(doc).Gateway
		if got := [2]bool{g.Console.Serve, g.ClientDownloads}; got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
