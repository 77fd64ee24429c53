package upgrade_test

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"github.com/ruedahq/rueda/internal/base/certificate/certtest"
	"github.com/ruedahq/rueda/internal/ops/config"
)

// TestSettings reads the configurations, which together have every key of the commit. The settings
// that come from them are those of settings.txt, which the commit itself wrote, with
// RUEDA_WRITE_UPGRADE set. There may be more of them.
func TestSettings(t *testing.T) {
	folder := configurations(t)
	names, err := filepath.Glob(filepath.Join(folder, "*.toml"))
	if err != nil {
		t.Fatal(err)
	}
	got, keys := map[string]bool{}, map[string]bool{}
	for _, name := range names {
		base := filepath.Base(name)
		addKeys(t, name, keys)
		if base == "markets.toml" || base == "instruments.toml" {
			continue
		}
		for _, line := range flatSettings(t, name) {
			if base != "files.toml" && (strings.HasPrefix(line, "Gateway.Markets") || strings.HasPrefix(line, "Gateway.Instruments")) {
				continue // the same in all of them
			}
			got[base+" "+strings.ReplaceAll(line, folder, "FOLDER")] = true
		}
	}
	file := filepath.Join(fd6a63bd, "configuration", "settings.txt")
	if os.Getenv("RUEDA_WRITE_UPGRADE") != "" {
		text := strings.Join(slices.Sorted(maps.Keys(got)), "\n") + "\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range lines(t, file) {
		name, _, _ := strings.Cut(strings.TrimPrefix(line, "files.toml "), " ")
		if !got[line] && !slices.Contains(removed, name) {
			t.Errorf("this program has no setting %s", line)
		}
	}
	for _, key := range lines(t, filepath.Join(fd6a63bd, "configuration", "keys.txt")) {
		if !keys[key] {
			t.Errorf("no configuration has %s", key)
		}
		delete(keys, key)
	}
	if len(keys) > 0 {
		t.Errorf("the configurations have keys that the commit did not have: %v", slices.Sorted(maps.Keys(keys)))
	}
}

// removed are settings of the commit whose keys are a warning now.
var removed = []string{
	"Data.PasswordQueue", "Gateway.Limits.Logins.GlobalBurst", "Gateway.Limits.Logins.NetworkBurst",
	"Gateway.Stream.SendBuffer", "Gateway.TLS.Reload",
}

// TestFirstSettings reads the configuration that serve --init of 0.1.0 wrote.
func TestFirstSettings(t *testing.T) {
	folder := t.TempDir()
	copyPrivate(t, filepath.Join("0.1.0", "init"), folder)
	got := flatSettings(t, filepath.Join(folder, "rueda.toml"))
	for _, want := range []string{
		"Gateway.Listen = 127.0.0.1:8080", "Gateway.Admin.Listen = 127.0.0.1:8081", "Gateway.Admin.TokenFile = " + folder + "/admin.token",
		"Gateway.Journal.Folder = " + folder + "/data/journal", "Data.Folder = " + folder + "/data", "Users.Type = local",
		"Gateway.Markets[0].ID = BYMA", "Gateway.Markets[0].Timezone = America/Argentina/Buenos_Aires", "Gateway.Markets[0].Terms[1].Name = 24hs", "Gateway.Feeds[0].Name = simulated",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("without %s in\n%s", want, strings.Join(got, "\n"))
		}
	}
}

func lines(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	list := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(list) < 100 {
		t.Fatalf("%s has %d lines", name, len(list))
	}
	return list
}

// configurations returns a copy of the configurations with the files that they name.
func configurations(t *testing.T) string {
	t.Helper()
	folder := copied(t, "configuration")
	secret, key, url := strings.Repeat("secret-", 8), strings.Repeat("5a", 32), "postgres://rueda:x@127.0.0.1/rueda?sslmode=verify-full"
	for name, value := range map[string]string{"RUEDA_TEST_SECRET": secret, "RUEDA_TEST_ENCRYPTION_KEY": key, "RUEDA_TEST_DATABASE_URL": url} {
		t.Setenv(name, value)
	}
	ca := certtest.NewAuthority(t, "ca")
	authority, err := os.ReadFile(ca.File)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"secret": secret, "encryption.key": key, "database.url": url, "nats.creds": "", "people.db": "",
		"breached.txt": strings.Repeat("0", 40) + ":1\r\n", "recording.jsonl": recording,
		"ca.crt": string(authority), "ca.crl": string(ca.Revoke(nil)),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	certtest.Write(t, folder, "localhost")
	return folder
}

// recording is a capture of Binance.
const recording = `1723161255020000000 {"stream":"btcusdt@trade","data":{"e":"trade","E":1723161256021,"T":1723161256020,"s":"BTCUSDT","t":7,"p":"100.10","q":"0.250","X":"MARKET","m":false}}
`

// flatSettings reads a configuration and returns each value that is not zero with its path.
func flatSettings(t *testing.T, name string) []string {
	t.Helper()
	var log config.Log
	s, err := config.Read(name, func(l config.Log) (*slog.Logger, *slog.LevelVar) {
		log = l
		return slog.New(slog.DiscardHandler), nil
	})
	if err != nil {
		t.Fatalf("%s: %v", filepath.Base(name), err)
	}
	t.Cleanup(func() {
		if err := s.Users.Close(); err != nil {
			t.Error(err)
		}
	})
	s.Gateway.Logger = nil
	list := flat(nil, "Gateway", reflect.ValueOf(s.Gateway))
	list = flat(list, "Data", reflect.ValueOf(s.Data))
	list = flat(list, "Lines", reflect.ValueOf(s.Lines))
	list = flat(list, "Log", reflect.ValueOf(log))
	return append(list, "Users.Type = "+s.Users.Type)
}

// flat appends the exported values below v.
func flat(list []string, path string, v reflect.Value) []string {
	if v.IsZero() {
		return list
	}
	if s, ok := v.Interface().(fmt.Stringer); ok && v.Kind() != reflect.Pointer {
		return append(list, path+" = "+s.String())
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				list = flat(list, path+"."+f.Name, v.Field(i))
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return append(list, fmt.Sprintf("%s = %s", path, v.Bytes()))
		}
		for i := range v.Len() {
			list = flat(list, fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			list = flat(list, fmt.Sprintf("%s[%v]", path, k), v.MapIndex(k))
		}
	case reflect.Pointer:
		return flat(list, path, v.Elem())
	case reflect.Interface:
		return append(list, fmt.Sprintf("%s is a %s", path, v.Elem().Type()))
	case reflect.Func, reflect.Chan:
	default:
		return append(list, fmt.Sprintf("%s = %v", path, v))
	}
	return list
}

// addKeys adds the keys of a file to the set.
func addKeys(t *testing.T, name string, keys map[string]bool) {
	t.Helper()
	var tree map[string]any
	if _, err := toml.DecodeFile(name, &tree); err != nil {
		t.Fatal(err)
	}
	file := "rueda.toml "
	if base := filepath.Base(name); base == "markets.toml" || base == "instruments.toml" {
		file = base + " "
	}
	var add func(path string, tree map[string]any)
	add = func(path string, tree map[string]any) {
		for key, value := range tree {
			switch value := value.(type) {
			case map[string]any:
				add(path+key+".", value)
			case []map[string]any:
				for _, table := range value {
					add(path+key+".", table)
				}
			default:
				keys[file+path+key] = true
			}
		}
	}
	add("", tree)
}
