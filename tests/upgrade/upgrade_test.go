// Package upgrade_test opens data that earlier programs wrote, and compares this program's answers
// with theirs. README.md describes the data.
package upgrade_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/api/openapi/openapitest"
)

func TestMain(m *testing.M) { os.Exit(openapitest.Main(m.Run)) }

// release has the answers of a release, from its expected.json.
type release struct {
	Version     string
	Commit      string
	Instrument  string
	Accounts    any
	Instruments []string
	Keys        []string
	Epoch       string
	Position    string
	Trades      []any
	Bars        []any
}

// TestUpgrade opens the folder of each release. Users log in with their passwords and have their
// accounts, the signing keys and the epoch continue, and the history of a closed day is the same.
func TestUpgrade(t *testing.T) {
	folders, err := filepath.Glob("*/expected.json")
	if err != nil || len(folders) == 0 {
		t.Fatalf("found no folder of a release: %v", err)
	}
	for _, file := range folders {
		folder := filepath.Dir(file)
		t.Run(folder, func(t *testing.T) {
			var want release
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			if want.Version != folder || len(want.Commit) != 40 || len(want.Trades) == 0 || len(want.Bars) == 0 {
				t.Fatalf("%s is not what a release wrote: version %q, commit %q", file, want.Version, want.Commit)
			}
			c := open(t, filepath.Join(folder, "data"))
			c.compare(&want)
		})
	}
}

// client sends REST requests to a gateway.
type client struct {
	t     *testing.T
	url   string
	token string
}

// open runs a gateway on a copy of a data folder, and logs in.
func open(t *testing.T, from string) *client {
	folder := t.TempDir()
	copyPrivate(t, from, folder)
	data, err := gateway.OpenData(t.Context(), gateway.DataConfig{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	ready := make(chan gateway.Bound, 1)
	g, err := gateway.New(t.Context(), gateway.Config{
		Listen: "127.0.0.1:0", Data: data, Accounts: data.Users,
		Journal: gateway.Journal{Folder: filepath.Join(folder, "journal")},
		OnReady: func(b gateway.Bound) { ready <- b },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := data.Close(); err != nil {
			t.Error(err)
		}
	})
	c := &client{t: t}
	select {
	case b := <-ready:
		c.url = b.REST
	case err := <-ended:
		ended <- err
		t.Fatal(err)
	}
	res, err := http.Post(c.url+"/auth/token", "application/json",
		strings.NewReader(`{"grant_type":"password","username":"ana","password":"correct horse"}`))
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Data struct {
			Token string `json:"access_token"`
		}
	}
	c.decode(res, &answer)
	c.token = answer.Data.Token
	return c
}

// copyPrivate copies a folder with the modes that a gateway gives its files.
func copyPrivate(t *testing.T, from, to string) {
	err := filepath.WalkDir(from, func(name string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), text, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (c *client) decode(res *http.Response, into any) {
	c.t.Helper()
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK {
		c.t.Fatalf("%s: %s %s", res.Request.URL.Path, res.Status, text)
	}
	if err := json.Unmarshal(text, into); err != nil {
		c.t.Fatal(err)
	}
}

// get requests a path and decodes the answer.
func (c *client) get(path string, into any) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.url+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	c.decode(res, into)
}

func (c *client) compare(want *release) {
	var accounts struct{ Data any }
	c.get("/broker/accounts", &accounts)
	c.same("accounts", accounts.Data, want.Accounts)

	var keys struct{ Keys []struct{ Kid string } }
	c.get("/.well-known/jwks.json", &keys)
	known := map[string]bool{}
	for _, k := range keys.Keys {
		known[k.Kid] = true
	}
	for _, kid := range want.Keys {
		if !known[kid] {
			c.t.Errorf("the signing key %s is gone", kid)
		}
	}

	var listed struct {
		Data struct{ Instruments []struct{ Instrument string } }
	}
	c.get("/market/instruments", &listed)
	names := map[string]bool{}
	for _, in := range listed.Data.Instruments {
		names[in.Instrument] = true
	}
	for _, name := range want.Instruments {
		if !names[name] {
			c.t.Errorf("the instrument %s is not listed", name)
		}
	}

	query := "?limit=20&instrument=" + url.QueryEscape(want.Instrument)
	var snapshot struct{ Data struct{ Epoch string } }
	c.get("/market/snapshot?instruments="+url.QueryEscape(want.Instrument), &snapshot)
	c.same("epoch", snapshot.Data.Epoch, want.Epoch)
	var trades struct{ Data struct{ Trades []any } }
	c.get("/market/trades"+query, &trades)
	c.same("trades", trades.Data.Trades, want.Trades)
	var bars struct{ Data struct{ Bars []any } }
	c.get("/market/bars"+query+"&interval=1m", &bars)
	for _, b := range bars.Data.Bars { // 0.1.0 had no trading date; the market is in UTC
		bar := b.(map[string]any)
		c.same("trading date", bar["TD"], bar["T"].(string)[:len(time.DateOnly)])
		delete(bar, "TD")
	}
	c.same("bars", bars.Data.Bars, want.Bars)
}

func (c *client) same(what string, got, want any) {
	c.t.Helper()
	if !reflect.DeepEqual(got, want) {
		c.t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
