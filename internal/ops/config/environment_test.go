package config

import (
	"encoding"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryScalarHasAVariable sets each setting that is one value by its environment variable.
func TestEveryScalarHasAVariable(t *testing.T) {
	texts := map[reflect.Kind]string{reflect.String: "x", reflect.Bool: "true", reflect.Int: "3", reflect.Int64: "3"}
	valueOf := func(f reflect.Type) string {
		if f.Kind() == reflect.Pointer {
			f = f.Elem()
		}
		for _, text := range []string{"30s", "65536"} {
			if u, ok := reflect.New(f).Interface().(encoding.TextUnmarshaler); ok && u.UnmarshalText([]byte(text)) == nil {
				return text
			}
		}
		return texts[f.Kind()]
	}
	var variables []string
	var walk func(prefix string, table reflect.Type)
	walk = func(prefix string, table reflect.Type) {
		for i := range table.NumField() {
			f := table.Field(i)
			name := prefix + "__" + strings.ToUpper(f.Tag.Get("toml"))
			switch {
			case isTable(f.Type):
				walk(name, f.Type)
			case isScalar(f.Type) && name != "RUEDA__DATABASE__URL": // a secret
				variables = append(variables, name+"="+valueOf(f.Type))
			}
		}
	}
	walk("RUEDA", reflect.TypeFor[mainFile]())
	if len(variables) < 120 {
		t.Errorf("only %d variables", len(variables))
	}
	var c mainFile
	doc := &document{file: "f.toml", variables: map[string]string{}}
	doc.environment(variables, &c)
	if err := doc.err(); err != nil || doc.warnings != nil {
		t.Error(err, doc.warnings)
	}
	origins := doc.origins("", reflect.ValueOf(&c).Elem())
	if len(origins) != len(variables) {
		t.Errorf("%d of %d variables are used", len(origins), len(variables))
	}
	for i, o := range origins {
		name, _, _ := strings.Cut(variables[i], "=")
		if o.Place != name || o.Key != strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "RUEDA__"), "__", ".")) {
			t.Errorf("%s: %+v", name, o)
		}
	}
	if c.Limits.Sockets != 3 || c.Users.HTTP.URL != "x" || !*c.Console || c.Stream.MaxWaiting != 65536 || *c.Keys.Rotate == 0 {
		t.Errorf("%+v", c)
	}
}

// TestWrongVariables checks the messages about variables that are not settings.
func TestWrongVariables(t *testing.T) {
	for variable, want := range map[string]string{
		"RUEDA__LIMITS__SOCKETS=many":                `RUEDA__LIMITS__SOCKETS: "many" is not a whole number`,
		"RUEDA__LIMITS__SOCKETS=9999999999999999999": `RUEDA__LIMITS__SOCKETS: "9999999999999999999" is not a whole number`,
		"RUEDA__INSECURE=yes":                        `RUEDA__INSECURE: "yes" is not true or false`,
		"RUEDA__AUTH__ACCESS_TTL=soon":               `RUEDA__AUTH__ACCESS_TTL: "soon" is not a duration, such as`,
		"RUEDA__STREAM__MEMORY=lots":                 `RUEDA__STREAM__MEMORY: "lots" is not a size in bytes, such as`,
		"RUEDA__LIMITS__SOCKET=5":                    "RUEDA__LIMITS__SOCKET: is not a setting; did you mean RUEDA__LIMITS__SOCKETS?",
		"RUEDA__LIMIT__SOCKETS=5":                    "RUEDA__LIMIT__SOCKETS: is not a setting; did you mean RUEDA__LIMITS__SOCKETS?",
		"RUEDA__LIMITS_SOCKETS=5":                    "RUEDA__LIMITS_SOCKETS: is not a setting; did you mean RUEDA__LIMITS__SOCKETS?",
		"RUEDA__limits__sockets=5":                   "RUEDA__limits__sockets: is not a setting; did you mean RUEDA__LIMITS__SOCKETS?",
		"RUEDA__LOG__COLOUR=blue":                    "RUEDA__LOG__COLOUR: is not a setting; after RUEDA__LOG__ there are FORMAT, LEVEL",
		"RUEDA__DATABASE__URL=postgres://x":          "RUEDA__DATABASE__URL: is not a setting; after RUEDA__DATABASE__ there are URL_ENV, URL_FILE",
		"RUEDA__LIMITS=5":                            "RUEDA__LIMITS: limits is a table: add the name of a key, such as RUEDA__LIMITS__CONNECTIONS",
		"RUEDA__DATA__FOLDER=x":                      "RUEDA__DATA__FOLDER: data is not a table",
		"RUEDA__ORIGINS=https://a.example":           "RUEDA__ORIGINS: origins is a list, which only the file can set",
		"RUEDA__FEED=x":                              "RUEDA__FEED: feed is a list, which only the file can set",
		"RUEDA__FEED__0__NAME=x":                     "RUEDA__FEED__0__NAME: feed is a list, which only the file can set",
		"RUEDA__ORIGINS__0=x":                        "RUEDA__ORIGINS__0: origins is a list, which only the file can set",
		"RUEDA__FEEDS__0=x":                          "RUEDA__FEEDS__0: is not a setting; after RUEDA__ there are ",
		"RUEDA__DATABASE__URL_COMMANDS=x":            "RUEDA__DATABASE__URL_COMMANDS: is not a setting; after RUEDA__DATABASE__ there are URL_ENV, URL_FILE",
		"RUEDA__AUTH__PEPPER_COMMAND=x":              "RUEDA__AUTH__PEPPER_COMMAND: auth.pepper_command is a list, which only the file can set",
		"RUEDA__=x":                                  "RUEDA__: is not a setting; after RUEDA__ there are ",
	} {
		doc := &document{file: "f.toml", variables: map[string]string{}}
		doc.environment([]string{variable}, &mainFile{})
		if err := doc.err(); err == nil || !strings.HasPrefix(err.Error(), "environment variable "+want) {
			t.Errorf("%s\ngot  %v\nwant environment variable %s", variable, err, want)
		}
	}
	var c mainFile
	doc := &document{variables: map[string]string{}}
	doc.environment([]string{
		"RUEDA_LIMITS_SOCKETS=5", "RUEDA__LISTEN=", "RUEDA_PORT=tcp://10.0.0.1:80", "RUEDA_DATABASE_URL=x", "RUEDA_CONFIG=x", "RUEDA_ENCRYPTION_KEY=x", "RUEDAS__X=1",
	}, &c)
	want := []string{"environment variable RUEDA_LIMITS_SOCKETS has no effect; did you mean RUEDA__LIMITS__SOCKETS?"}
	if !slices.Equal(doc.warnings, want) || doc.err() != nil {
		t.Errorf("%q, %v", doc.warnings, doc.err())
	}
}

// TestVariablesBeforeFile checks that variables take precedence over the file, and that each value
// has an origin. A mistake that is found later names the variable.
func TestVariablesBeforeFile(t *testing.T) {
	folder := t.TempDir()
	name := filepath.Join(folder, "rueda.toml")
	write(t, name, "listen = \"127.0.0.1:1\"\n[limits]\nsockets = 300\nconnections = 5\n[[feed]]\nname = \"a\"\ntype = \"sim\"\n")
	discard := func(Log) (*slog.Logger, *slog.LevelVar) { return slog.New(slog.DiscardHandler), nil }
	t.Setenv("RUEDA__LIMITS__SOCKETS", "500")
	t.Setenv("RUEDA__DATA", "elsewhere")
	s, err := Read(name, discard)
	if err != nil {
		t.Fatal(err)
	}
	if s.Gateway.Limits.Sockets != 500 || s.Gateway.Limits.Connections != 5 || s.Data.Folder != filepath.Join(folder, "elsewhere") {
		t.Errorf("%+v, data %s", s.Gateway.Limits, s.Data.Folder)
	}
	want := []Origin{
		{"listen", name + ":1", ""}, {"data", "RUEDA__DATA", ""}, {"limits.connections", name + ":4", ""},
		{"limits.sockets", "RUEDA__LIMITS__SOCKETS", name + ":3"}, {"feed[0].name", name + ":6", ""}, {"feed[0].type", name + ":7", ""},
	}
	if !slices.Equal(s.Origins, want) {
		t.Errorf("got  %v\nwant %v", s.Origins, want)
	}

	t.Setenv("RUEDA__LIMITS__SOCKETS", "-1")
	t.Setenv("RUEDA__TLS__CERTIFICATE", "tls.crt")
	t.Setenv("RUEDA__KEYS__ENCRYPTION_KEY_FILE", "none")
	_, err = Read(name, discard)
	for _, want := range []string{
		"environment variable RUEDA__LIMITS__SOCKETS: must not be negative",
		"environment variable RUEDA__TLS__CERTIFICATE: certificate and key go together",
		"environment variable RUEDA__KEYS__ENCRYPTION_KEY_FILE: ",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nis without %s", err, want)
		}
	}
}

// TestMinimal reads the short example as it is, and with all its options in use.
func TestMinimal(t *testing.T) {
	folder := t.TempDir()
	written, err := Write(folder, true)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(written[0])
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n > 50 {
		t.Errorf("%d lines", n)
	}
	s, err := Read(written[0], func(Log) (*slog.Logger, *slog.LevelVar) { return slog.New(slog.DiscardHandler), nil })
	if err != nil || len(s.Gateway.Feeds) != 1 || s.Gateway.Admin.Listen == "" {
		t.Fatalf("%v, %+v", err, s)
	}
	all := regexp.MustCompile(`(?m)^# (\[|[a-z_]+ = )`).ReplaceAllString(string(text), "$1")
	doc, err := decode("rueda.toml", []byte(all), &mainFile{})
	if err != nil || doc.err() != nil {
		t.Errorf("%v %v in\n%s", err, doc.err(), all)
	}
}
