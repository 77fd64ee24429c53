package config

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/market"
)

var update = flag.Bool("update", false, "write the table of settings to docs/operations.md")

// settingKeys returns the keys of a struct, such as limits.connections. A list is one key.
func settingKeys(prefix string, t reflect.Type) (keys []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		key := prefix + f.Tag.Get("toml")
		if f.Type.Kind() == reflect.Struct {
			keys = append(keys, settingKeys(key+".", f.Type)...)
		} else {
			keys = append(keys, key)
		}
	}
	return keys
}

// settingTable returns the table of settings of docs/operations.md.
func settingTable() string {
	var order []string
	rows := map[string]*[2][]string{}
	for _, key := range settingKeys("", reflect.TypeFor[mainFile]()) {
		table, name, ok := strings.Cut(key, ".")
		if !ok {
			table, name = "(top)", key
		}
		if rows[table] == nil {
			rows[table] = &[2][]string{}
			order = append(order, table)
		}
		column := 1
		if applies(key) {
			column = 0
		}
		rows[table][column] = append(rows[table][column], "`"+name+"`")
	}
	var b strings.Builder
	b.WriteString("| table | applies after a reload | needs a restart |\n|---|---|---|\n")
	cell := func(names []string, others int) string {
		switch {
		case len(names) == 0:
			return ""
		case others == 0:
			return "all"
		}
		return strings.Join(names, ", ")
	}
	for _, table := range order {
		live, restart := rows[table][0], rows[table][1]
		shown := "`[" + table + "]`"
		if table == "(top)" {
			shown = "none"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", shown, cell(live, len(restart)), cell(restart, len(live)))
	}
	return b.String()
}

// TestSettingTable compares the table of docs/operations.md with the keys of the configuration.
func TestSettingTable(t *testing.T) {
	const file, begin, end = "../../../docs/operations.md", "<!-- table settings -->\n", "<!-- /table -->"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), begin)
	table, after, ok := strings.Cut(rest, end)
	if !ok {
		t.Fatal("the page has no table of settings")
	}
	want := settingTable()
	if *update {
		if err := os.WriteFile(file, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != want {
		t.Errorf("docs/operations.md differs: go test ./internal/ops/config -run TestSettingTable -update\n%s", want)
	}
}

// readAgain reads a configuration from texts of its files.
func readAgain(t *testing.T, main, markets, instruments string) *Settings {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{"rueda.toml": main, "markets.toml": markets, "instruments.toml": instruments} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Read(filepath.Join(folder, "rueda.toml"), func(Log) (*slog.Logger, *slog.LevelVar) {
		return slog.New(slog.DiscardHandler), new(slog.LevelVar)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Users.Close() })
	return s
}

// TestEveryLimitApplies changes each key of [limits] and [throttle]. Those that apply are in the
// limits of the change, and the others keep their value there.
func TestEveryLimitApplies(t *testing.T) {
	seen := 0
	for _, key := range settingKeys("", reflect.TypeFor[mainFile]()) {
		table, name, _ := strings.Cut(key, ".")
		if table != "limits" && table != "throttle" {
			continue
		}
		seen++
		value := "7000"
		switch name {
		case "account_failure_window":
			value = `"7m"`
		case "message_bytes":
			value = `"7KiB"`
		}
		old := readAgain(t, "", "", "")
		next := readAgain(t, "["+table+"]\n"+name+" = "+value+"\n", "", "")
		c := old.Changes(next)
		if applies(key) {
			if !slices.Equal(c.Change.Names, []string{key}) || len(c.Restart) != 0 || c.Change.Limits == nil || !reflect.DeepEqual(*c.Change.Limits, next.Gateway.Limits) {
				t.Errorf("%s: %+v", key, c)
			}
		} else if !slices.Equal(c.Restart, []string{key}) || c.Change.Limits != nil || len(c.Change.Names) != 0 {
			t.Errorf("%s: %+v", key, c)
		}
		c.Commit()
		if c := old.Changes(next); len(c.Change.Names) != 0 || (len(c.Restart) == 0) != applies(key) {
			t.Errorf("%s, after the change: %+v", key, c)
		}
	}
	if seen < 25 {
		t.Errorf("only %d limits", seen)
	}
}

// TestChanges checks which differences apply, and which wait for a restart, each time that the
// configuration is read.
func TestChanges(t *testing.T) {
	const hours = "[[market.session]]\nstart = \"10:00\"\nend = \"17:00\"\nphase = \"open\"\n"
	const term = "[[market.term]]\nname = \"CI\"\n"
	markets := "[[market]]\nid = \"BYMA\"\n" + hours + "[[market]]\nid = \"OPEN\"\n" + term + "[[market]]\nid = \"GONE\"\n" + term
	instruments := "[[instrument]]\nid = \"GGAL|OPEN|CI\"\n[[instrument]]\nid = \"OLD|OPEN|CI\"\n"
	files := "markets = \"markets.toml\"\ninstruments = \"instruments.toml\"\n"
	old := readAgain(t, files, markets, instruments)
	next := readAgain(t, files+"data = \"other\"\nlisten = \"127.0.0.1:9\"\n[log]\nlevel = \"error\"\n[stream]\nmax_age = \"3s\"\n[users]\ntype = \"local\"\n",
		"[[market]]\nid = \"BYMA\"\n"+hours+"[[market.holiday]]\ndate = \"2026-12-25\"\n[[market]]\nid = \"OPEN\"\n"+hours+term+"[[market]]\nid = \"NEW\"\n"+term+"[[market]]\nid = \"LATER\"\n"+hours+term,
		"[[instrument]]\nid = \"GGAL|NEW|CI\"\n[[instrument]]\nid = \"GGAL|LATER|CI\"\n[[instrument]]\nid = \"GGAL|OPEN|CI\"\nname = \"Galicia\"\n")
	c := old.Changes(next)
	applied := []string{"log.level", "market BYMA", "market NEW", "instruments (1)"}
	restart := []string{"listen", "data", "stream.max_age", "market OPEN", "market LATER", "market GONE", "instruments (3)"}
	if !slices.Equal(c.Change.Names, applied) || !slices.Equal(c.Restart, restart) {
		t.Errorf("applied %q, restart %q", c.Change.Names, c.Restart)
	}
	if l := c.Change.LogLevel; l == nil || *l != slog.LevelError || len(c.Change.Markets) != 2 || len(c.Change.Instruments) != 1 || c.Change.Limits != nil || c.Change.TLS != nil {
		t.Errorf("%+v", c.Change)
	}
	c.Commit()
	old.Gateway.LogLevel.Set(slog.LevelError)
	if c = old.Changes(next); len(c.Change.Names) != 0 || !slices.Equal(c.Restart, restart) {
		t.Errorf("again: applied %q, restart %q", c.Change.Names, c.Restart)
	}
	has := func(id string) bool {
		return slices.ContainsFunc(old.Gateway.Instruments, func(in market.Instrument) bool { return in.ID.String() == id })
	}
	if !has("GGAL|NEW|CI") || !has("OLD|OPEN|CI") || has("GGAL|LATER|CI") || len(old.Gateway.Markets) != 4 {
		t.Errorf("in use: %v, %d markets", old.Gateway.Instruments, len(old.Gateway.Markets))
	}
}
