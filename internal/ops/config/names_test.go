package config

import (
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/gateway"
)

// TestUnclosedQuote checks that an unclosed quote is reported at its line, whatever follows.
func TestUnclosedQuote(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"markets = \"x\nb = \"a.b.c.d.e.f.g.h.i.j.k\"\n", "f.toml:1: markets: the quote of this string is not closed"},
		{"a = 1\nmarkets = 'x\nb = '{[[[[[[[[[['\n", "f.toml:2: markets: the quote of this string is not closed"},
		{"a = 1\nmarkets = \"\"\"x\nb = 2\nc = 3\n", "f.toml:2: markets: the quote of this string is not closed"},
		{"a = 1\nmarkets = \"x", "f.toml:2: markets: the quote of this string is not closed"},
		{"# it's fine\na = [1,\n\nb = 'x\n", "f.toml:4: a: "},
		{"a = x\nb = 'x\n", "f.toml:1: a: "},
	} {
		_, err := decode("f.toml", []byte(tc.text), &mainFile{})
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%q: %v, want %s", tc.text, err, tc.want)
		}
	}
}

// TestNamesThatDoNotFit checks that instruments of unlisted markets and terms, and feeds with the
// same name, are reported with file, line and key.
func TestNamesThatDoNotFit(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("markets.toml", "[[market]]\nid = \"BYMA\"\nname = \"BYMA\"\ntimezone = \"America/Argentina/Buenos_Aires\"\n[[market.term]]\nname = \"24hs\"\nsettlement_days = 1\n")
	write("instruments.toml", "[[instrument]]\nid = \"GGAL|BYMA|24hs\"\n\n[[instrument]]\nid = \"GGAL|BYMAX|24hs\"\n\n[[instrument]]\nid = \"ES|ROFEX|CI\"\n\n"+
		"[[instrument]]\nid = \"GGAL|BYMA|24Hs\"\n\n[[instrument]]\nid = \"GGAL|BYMA|48hs\"\nsettlement_days = 2\n")
	main := write("rueda.toml", "markets = \"markets.toml\"\ninstruments = \"instruments.toml\"\n[[feed]]\nname = \"a\"\ntype = \"sim\"\n[[feed]]\nname = \"a\"\ntype = \"sim\"\n")
	_, err := Read(main, func(Log) (*slog.Logger, *slog.LevelVar) { return slog.New(slog.DiscardHandler), nil })
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`rueda.toml:7: feed[1].name: duplicate feed name "a"`,
		"instruments.toml:5: instrument[1].id: market BYMAX is not in markets.toml; did you mean BYMA?",
		"instruments.toml:8: instrument[2].id: market ROFEX is not in markets.toml; the markets are BYMA",
		"instruments.toml:11: instrument[3].id: term 24Hs is not one of market BYMA, and settlement_days is not given; did you mean 24hs?",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nis without %s", err, want)
		}
	}
	if n := strings.Count(err.Error(), "\n"); n != 3 {
		t.Errorf("%d lines: %v", n+1, err)
	}
}

// TestMissingSecret checks that the error for a missing file of a secret names the next step.
func TestMissingSecret(t *testing.T) {
	for text, want := range map[string]string{
		"[[feed]]\nname = \"a\"\ntype = \"ndjson\"\nlisten = \"127.0.0.1:0\"\ntoken_file = \"none\"\n": "none: no such file or directory: create it with (umask 077; openssl rand -hex 32 >",
		"[database]\nurl_file = \"none\"\n": "none: no such file or directory: write the secret into it, and run chmod 600 ",
	} {
		name := filepath.Join(t.TempDir(), "rueda.toml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Read(name, func(Log) (*slog.Logger, *slog.LevelVar) { return slog.New(slog.DiscardHandler), nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nis without %s", err, want)
		}
	}
}

// TestFeedChecks checks when a feed looks wrong by its keys: 0 disables a check.
func TestFeedChecks(t *testing.T) {
	for text, want := range map[string]struct {
		checks  gateway.FeedChecks
		mistake string
	}{
		"": {},
		"price_band = 20\nmax_ahead = \"1s\"\nstall = \"5m\"\nrefuse = [\"price_jump\", \"sequence_back\"]": {
			checks: gateway.FeedChecks{PriceBand: 20, MaxAhead: time.Second, Stall: 5 * time.Minute, Refuse: []string{"price_jump", "sequence_back"}}},
		"price_band = 0\nmax_ahead = \"0s\"\nstall = \"0s\"": {checks: gateway.FeedChecks{PriceBand: -1, MaxAhead: -1, Stall: -1}},
		"price_band = -1":       {mistake: "feed[0].price_band: must be a percentage"},
		"price_band = nan":      {mistake: "feed[0].price_band: must be a percentage"},
		"stall = \"10ms\"":      {mistake: "feed[0].stall: must be at least 1s"},
		"refuse = [\"prices\"]": {mistake: `feed[0].refuse[0]: "prices" is not one of price_jump, future_time, sequence_back`},
		"refuse = [\"stall\"]":  {mistake: `feed[0].refuse[0]: "stall" is not one of`},
	} {
		var c mainFile
		doc, err := decode("rueda.toml", []byte("[[feed]]\nname = \"a\"\ntype = \"sim\"\n"+text+"\n"), &c)
		if err != nil {
			t.Fatal(err)
		}
		f, ok := c.Feeds[0].feed(doc, "feed[0]", nil, slog.New(slog.DiscardHandler))
		if want.mistake != "" {
			if err := doc.err(); ok || err == nil || !strings.Contains(err.Error(), want.mistake) {
				t.Errorf("%q: %v", text, err)
			}
			continue
		}
		if !ok || !reflect.DeepEqual(f.Checks, want.checks) {
			t.Errorf("%q: %+v, %v", text, f.Checks, doc.err())
		}
	}
}

// TestRemovedKeys checks that a key of an earlier version is a warning with its line and what is
// the case instead, in the file and in the environment.
func TestRemovedKeys(t *testing.T) {
	for key, why := range removedKeys() {
		table, name, _ := strings.Cut(key, ".")
		var c mainFile
		doc, err := decode("rueda.toml", []byte("data = \"d\"\n["+table+"]\n"+name+" = \"any value\"\n"), &c)
		if err != nil || doc.err() != nil || len(doc.warnings) != 1 || doc.warnings[0] != "rueda.toml:3: "+key+": has no effect any more: "+why {
			t.Errorf("%s: %q, %v, %v", key, doc.warnings, err, doc.err())
		}
		doc = &document{variables: map[string]string{}}
		variable := "RUEDA__" + strings.ToUpper(table) + "__" + strings.ToUpper(name)
		doc.environment([]string{variable + "=1"}, &c)
		if doc.err() != nil || len(doc.warnings) != 1 || doc.warnings[0] != "environment variable "+variable+" has no effect any more: "+why {
			t.Errorf("%s: %q, %v", variable, doc.warnings, doc.err())
		}
	}
}
