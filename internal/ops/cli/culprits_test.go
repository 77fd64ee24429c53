package cli

import (
	"bytes"
	"context"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// mistake is a wrong command line or configuration.
type mistake struct {
	args    string // separated by spaces
	file    string // rueda.toml; "": none
	env     string // NAME=value; "": none
	status  int
	culprit string // a line of standard error
	next    string // on standard error; "": the culprit is enough
}

// commandLineMistakes need a gateway at URL.
var commandLineMistakes = []mistake{
	{args: "sreve", status: 2, culprit: `unknown command "sreve"`, next: `Did you mean rueda serve\?`},
	{args: "inst", status: 2, culprit: `unknown command "inst"`, next: `Did you mean rueda instruments\?`},
	{args: "orders", status: 2, culprit: `unknown command "orders"`, next: `See rueda --help`},
	{args: "history", status: 2, culprit: `unknown command "history"`, next: `Did you mean rueda bars or rueda trades\?`},
	{args: "user lst", status: 2, culprit: `unknown command "lst"`, next: `Did you mean rueda user list\?`},
	{args: "quote --jsn x", status: 2, culprit: `unknown flag: --jsn`, next: `See rueda quote --help`},
	{args: "serve --confg x", status: 2, culprit: `unknown flag: --confg`, next: `Did you mean --config\?`},
	{args: "serve --init --minimal", status: 2, culprit: `--init has no value: "--minimal" begins with a hyphen`, next: `Write: rueda serve --init DIR --minimal$`},
	{args: "serve --init --minimal etc", status: 2, culprit: `--init has no value: "--minimal" begins with a hyphen`, next: `Write: rueda serve --init etc --minimal$`},
	{args: "serve --init -x", status: 2, culprit: `--init has no value: "-x"`},
	{args: "export --data --open", status: 2, culprit: `--data has no value: "--open"`, next: `Write: rueda export --data DIR --open$`},
	{args: "dev --replay --loop", status: 2, culprit: `--replay has no value: "--loop"`},
	{args: "watch X|Y|Z --user --book", status: 2, culprit: `--user has no value: "--book"`, next: `--user VALUE --book$`},
	{args: "user import --config x -- --dry-run", status: 2, culprit: `"--dry-run" begins with a hyphen`, next: `Write ./--dry-run$`},
	{args: "watch X|Y|Z --password demo", status: 2, culprit: `unknown flag: --password$`, next: `(?s)Use --password-stdin, .*The variable RUEDA_PASSWORD`},
	{args: "user add ana --data x --password demo", status: 2, culprit: `unknown flag: --password$`, next: `Use --password-stdin, which reads it`},
	{args: "dev --listen 9000", status: 2, culprit: `--listen "9000" is not of the form host:port`, next: `Write --listen 127.0.0.1:9000$`},
	{args: "dev --admin localhost", status: 2, culprit: `--admin "localhost" is not of the form host:port`, next: `Write --admin localhost:8080$`},
	{args: "dev --ndjson 9100", status: 2, culprit: `--ndjson "9100" is not of the form host:port`, next: `Write --ndjson 127.0.0.1:9100$`},
	{args: "status", status: 2, culprit: `no token of an operator is given`, next: `Give --token-file FILE or the variable RUEDA_ADMIN_TOKEN`},
	{args: "status --admin 127.0.0.1:8081", status: 2, culprit: `--admin: "127.0.0.1:8081" is not a`, next: `The scheme is missing: http://127.0.0.1:8081$`},
	{args: "status --admin SECURE", env: "RUEDA_ADMIN_TOKEN=x", status: 5, culprit: `SECURE: the server does not use TLS$`, next: `write http:// in --admin`},
	{args: "accounts --url SECURE", status: 5, culprit: `SECURE: the server does not use TLS$`, next: `For a gateway without TLS, write URL$`},
	{args: "watch GGAL|BYMA|24hs --url SECURE", status: 5, culprit: `the server does not use TLS$`, next: `For a gateway without TLS, write URL$`},
	{args: "health --url 127.0.0.1:1", status: 2, culprit: `"127.0.0.1:1" is not the address of a gateway`, next: `The scheme is missing: http://127.0.0.1:1$`},
	{args: "accounts --url http:/127.0.0.1:1", status: 2, culprit: `"http:/127.0.0.1:1" is not the address`, next: `Two slashes follow the scheme: http://127.0.0.1:1$`},
	{args: "instruments zzz --url URL", status: 0, culprit: `No instrument with "zzz" in its symbol, name or ISIN`},
	{args: "instruments --market NOPE --url URL", status: 0, culprit: `No instrument of market NOPE\.`},
	{args: "quote", status: 2, culprit: `no instrument`, next: `Name one: rueda quote`},
	{args: "quote GGAL", status: 2, culprit: `"GGAL" is not of the form`, next: `Quote it, .*\n  Find it: .* instruments GGAL`},
	{args: "trades GGAL|BYMA", status: 2, culprit: `"GGAL\|BYMA" is not of the form .*: the settlement term is missing`, next: `Find it: .* instruments GGAL`},
	{args: "bars GGAL|BYMA|24hs|1m", status: 2, culprit: `"GGAL\|BYMA\|24hs\|1m" is not .*: the interval is a flag`, next: `Give --interval 1m`},
	{args: "book *|BYMA|24hs", status: 2, culprit: `"\*\|BYMA\|24hs" is a pattern, and this command takes one instrument`, next: `instruments$`},
	{args: "watch GGAL||24hs", status: 2, culprit: `"GGAL\|\|24hs" is not of the form`, next: `It looks like 'GGAL\|BYMA\|24hs'`},
	{args: "quote GGAL|BYMA|24hs NOPE|BYMA|24hs --url URL", status: 4, culprit: `there is no instrument NOPE\|BYMA\|24hs$`},
	{args: "quote *|NYSE|24hs --url URL", status: 4, culprit: `there is no instrument \*\|NYSE\|24hs$`, next: `See what there is: .* instruments`},
	{args: "watch NOPE|BYMA|24hs --url URL", status: 4, culprit: `no subscription is left`, next: `NOPE\|BYMA\|24hs refused`},
	{args: "accounts -o yaml", status: 2, culprit: `--output "yaml" is not one of table, json, jsonl, csv, tsv$`},
	{args: "bars GGAL|BYMA|24hs --interval 4h", status: 2, culprit: `--interval "4h" is not one of 1s, 1m, 5m, 15m, 1h, 1d`},
	{args: "trades GGAL|BYMA|24hs --since lately", status: 2, culprit: `--since "lately" is not a duration`, next: `It looks like 10m, 8h or 7d`},
	{args: "trades GGAL|BYMA|24hs --from noon", status: 2, culprit: `--from "noon" is not a time`, next: `or 16:55 in the zone of this machine`},
	{args: "watch GGAL|BYMA|24hs --depth 3", status: 2, culprit: `--depth 3: a book has 1, 5, 10 or 25 levels, or 0 for all`},
	{args: "watch GGAL|BYMA|24hs --for 1w", status: 2, culprit: `--for "1w" is not a duration such as 30s or 8h`},
	{args: "record GGAL|BYMA|24hs -f x.jsonl --channels trade", status: 2, culprit: `there is no channel "trade"`, next: `The channels are trades, quotes`},
	{args: "trigger hlat", status: 2, culprit: `there is no fault "hlat"`, next: `Did you mean halt\?`},
	{args: "snippet rust", status: 2, culprit: `there is no snippet in "rust"`, next: `The languages are curl, go, python, javascript\.`},
	{args: "export --data x --out y --format xlsx", status: 2, culprit: `--format "xlsx" is not one of parquet, csv, ndjson`},
	{args: "accounts --context nope", status: 2, culprit: `there is no context "nope"`, next: `rueda context add`},
	{args: "accounts --url broker.example", status: 2, culprit: `"broker.example" is not the address of a gateway`, next: `https://broker.example`},
	{args: "accounts --url http://broker.example", status: 2, culprit: `http://broker.example would send the password unencrypted`, next: `Use https://broker.example`},
	{args: "accounts --url http://127.0.0.1:1", status: 5, culprit: `http://127.0.0.1:1: connection refused`, next: `rueda dev`},
	{args: "accounts --url URL", env: "RUEDA_PASSWORD=wrong", status: 3, culprit: `invalid_credentials`, next: `demo/demo`},
	{args: "trades GGAL|BYMA|24hs --url URL --user basic", env: "RUEDA_PASSWORD=basic", status: 3, culprit: `forbidden`, next: `marketdata:history`},
	{args: "accounts ac_nobody --url URL", status: 4, culprit: `not_found`},
}

// configurationMistakes are found by serve --check.
var configurationMistakes = []mistake{
	{args: "serve", status: 2, culprit: `no configuration`, next: `rueda serve --init DIR`},
	{args: "serve --config missing.toml", status: 2, culprit: `missing.toml`, next: `rueda serve --init DIR`},
	{args: "serve --init x --check", status: 2, culprit: `--init can be combined with --minimal only`},
	{file: "lisen = \"x\"", status: 2, culprit: `rueda.toml:1: lisen: unknown key; did you mean listen\?`},
	{file: "colour = \"x\"", status: 2, culprit: `rueda.toml:1: colour: unknown key; the keys here are listen, `},
	{file: "listen = \"8080\"", status: 2, culprit: `rueda.toml:1: listen: "8080" is not of the form host:port`},
	{file: "listen = \"0.0.0.0:8080\"", status: 2, culprit: `rueda.toml:1: listen: "0.0.0.0:8080": plain HTTP`, next: `insecure = true`},
	{file: "[auth]\naccess_ttl = 24h", status: 2, culprit: `rueda.toml:2: .*must be in quotes`},
	{file: "[auth]\naccess_ttl = \"1w\"", status: 2, culprit: `rueda.toml:2: auth.access_ttl: "1w" is not a duration`, next: `"7d"`},
	{file: "data = \"C:\\data\"", status: 2, culprit: `rueda.toml:1: .*'\\d'`, next: `write / in paths, or use single quotes`},
	{file: "[limits]\nsockets = 1\n[limits]\nconnections = 1", status: 2, culprit: `rueda.toml:3: Key .limits. is already on line 1: put both together`},
	{file: "[limits]\nsockets = -1", status: 2, culprit: `rueda.toml:2: limits.sockets: must not be negative`, next: `leave it out for the default`},
	{file: "[limits]\nsockets = \"many\"", status: 2, culprit: `rueda.toml:2: limits.sockets: must be a whole number, not a string`},
	{file: "[keys]\nalgorithm = \"HS256\"", status: 2, culprit: `rueda.toml:2: keys.algorithm: "HS256" is not one of ES256, EdDSA, RS256$`},
	{file: "[[feed]]\nname = \"a\"\ntype = \"fix\"", status: 2, culprit: `rueda.toml:3: feed\[0\].type: "fix" is not one of sim, replay, ndjson$`},
	{file: "[[feed]]\ntype = \"sim\"", status: 2, culprit: `rueda.toml:1: feed\[0\]: name is missing`},
	{file: "[tls]\ncertificate = \"none.crt\"\nkey = \"none.key\"", status: 2, culprit: `rueda.toml:2: tls.certificate: .*none.crt: no such file`},
	{file: "\ninstruments = \"none.toml\"", status: 2, culprit: `rueda.toml:2: instruments: .*none.toml: no such file`},
	{file: "[admin]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"none\"", status: 2, culprit: `rueda.toml:3: admin.token_file: .*none: no such file`},
	{file: "[database]\nurl = \"postgres://x:secret@y/z\"", status: 2, culprit: `rueda.toml:2: database.url: must not be in this file`, next: `url_env`},
	{file: "[database]\nurl_env = \"NOTHING\"", status: 2, culprit: `rueda.toml:2: database.url_env: environment variable NOTHING is not set`},
	{file: "data = \"x\"", env: "RUEDA__LIMITS__SOCKET=5", status: 2, culprit: `environment variable RUEDA__LIMITS__SOCKET: is not a setting`, next: `RUEDA__LIMITS__SOCKETS\?`},
	{file: "data = \"x\"", env: "RUEDA__LIMITS__SOCKETS=many", status: 2, culprit: `environment variable RUEDA__LIMITS__SOCKETS: "many" is not a whole number`},
	{file: "data = \"x\"", env: "RUEDA__STREAM__PING_INTERVAL=1ms", status: 2, culprit: `environment variable RUEDA__STREAM__PING_INTERVAL: must be at least 1s`},
	{file: "data = \"x\"", status: 0, culprit: `Warning: rueda.toml:1: feed: there is no \[\[feed\]\]`, next: `rueda serve --init DIR`},
}

// TestMistakesNameTheCulpritE2E checks that each mistake has the documented exit status, and that
// its message names what is wrong. If the remedy is not obvious, the message also names the next
// step.
func TestMistakesNameTheCulpritE2E(t *testing.T) {
	_, url := startMarket(t)
	for _, m := range commandLineMistakes {
		for _, text := range []*string{&m.args, &m.culprit, &m.next} {
			*text = strings.NewReplacer("URL", url, "SECURE", strings.Replace(url, "http", "https", 1)).Replace(*text)
		}
		t.Run(m.args, func(t *testing.T) { m.check(t) })
	}
	for _, m := range configurationMistakes {
		name := m.args + m.file + m.env
		if m.file != "" {
			m.args = "serve --config rueda.toml --check"
		}
		t.Run(name, func(t *testing.T) { m.check(t) })
	}
}

func (m *mistake) check(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("RUEDA_CONTEXTS", filepath.Join(t.TempDir(), "contexts"))
	if m.file != "" {
		write(t, "rueda.toml", m.file+"\n")
	}
	if name, value, ok := strings.Cut(m.env, "="); ok {
		t.Setenv(name, value)
	}
	var said bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	status := run(ctx, strings.Fields(m.args), command.Streams{In: strings.NewReader(""), Out: new(bytes.Buffer), Err: &said})
	if status != m.status {
		t.Errorf("exit status %d, want %d", status, m.status)
	}
	for _, want := range []string{m.culprit, m.next} {
		if !regexp.MustCompile("(?m)" + want).MatchString(said.String()) {
			t.Errorf("standard error is without %s:\n%s", want, said.String())
		}
	}
	if strings.Contains(said.String(), "secret") {
		t.Errorf("a secret is printed:\n%s", said.String())
	}
}
