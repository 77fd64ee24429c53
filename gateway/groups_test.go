package gateway_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/gateway"
)

// noticed has the messages about a change of rights.
type noticed struct {
	Type, Msg string
	Removed   []struct{ Channel, Instrument, Reason string }
}

// TestGroupsChangedElsewhere changes groups by another connection to the database, as another
// process does. A stream that depends on a group's right loses it within half a second, and the
// socket stays open.
func TestGroupsChangedElsewhere(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	opened := func() *gateway.Data {
		t.Helper()
		d, err := gateway.OpenData(t.Context(), gateway.DataConfig{Folder: folder})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		return d
	}
	elsewhere := opened().Users
	for name, change := range map[string]func(ctx context.Context, group string) error{
		"left": func(ctx context.Context, group string) error {
			_, err := elsewhere.Leave(ctx, "left", group)
			return err
		},
		"revoked": func(ctx context.Context, group string) error {
			_, err := elsewhere.EditGroup(ctx, group, func(r *local.Rights) error { r.Entitlements = nil; return nil })
			return err
		},
		"removed": func(ctx context.Context, group string) error {
			_, err := elsewhere.RemoveGroup(ctx, group)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			group := "group-" + name
			err := elsewhere.AddGroup(t.Context(), group, local.Rights{
				Scopes: []string{broker.ScopeRead}, Entitlements: []broker.Entitlement{{Market: "BYMA", Trades: true}},
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := elsewhere.Add(t.Context(), local.NewUser{Username: name, Password: "a long password", Scopes: []string{broker.ScopeRead}}); err != nil {
				t.Fatal(err)
			}
			if _, err := elsewhere.Join(t.Context(), name, group); err != nil {
				t.Fatal(err)
			}
			c, stop, done := launch(t, gateway.Config{
				Data: opened(), Drain: time.Millisecond,
				Feeds: []gateway.Feed{{Name: "metronome", Source: metronome{[]string{"GGAL|BYMA|24hs"}, 10 * time.Millisecond}}},
			})
			c.enter(t, name, "a long password")
			b := connect(t, c)
			b.send(map[string]any{"action": "subscribe", "trades": []string{"GGAL|BYMA|24hs"}})
			b.until(t, "T", "")
			began := time.Now()
			if err := change(t.Context(), group); err != nil {
				t.Fatal(err)
			}
			m := b.rightsChanged(t)
			t.Logf("figure: change of a group noticed after %v", time.Since(began).Round(time.Millisecond))
			if len(m.Removed) != 1 || m.Removed[0].Channel != "trades" || m.Removed[0].Instrument != "GGAL|BYMA|24hs" || m.Removed[0].Reason != "not_entitled" {
				t.Errorf("received %+v", m)
			}
			b.send(map[string]any{"action": "subscribe", "trades": []string{"GGAL|BYMA|24hs"}})
			b.until(t, "Error", "not_entitled")
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// rightsChanged reads messages up to the change of rights.
func (b *bot) rightsChanged(t *testing.T) (m noticed) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for m.Msg != "Rights changed" {
		text, err := b.read(ctx)
		if err != nil {
			t.Fatalf("waiting for the change of rights: %v", err)
		}
		m = noticed{}
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// TestLogoutElsewhere ends all sessions of a user by another connection to the database. Open
// sockets close at once, older tokens are invalid, and the user can log in again.
func TestLogoutElsewhere(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	var data [2]*gateway.Data
	for i := range data {
		d, err := gateway.OpenData(t.Context(), gateway.DataConfig{Folder: folder})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		data[i] = d
	}
	addDemo(t, data[1].Users)
	c, stop, done := launch(t, gateway.Config{Data: data[0], Drain: time.Millisecond})
	c.enter(t, "demo", "demo-password")
	bots := []*bot{connect(t, c), connect(t, c)}
	began := time.Now()
	if err := data[1].Users.Logout(t.Context(), "demo"); err != nil {
		t.Fatal(err)
	}
	for _, b := range bots {
		b.until(t, "Error", "token_revoked")
		if _, err := b.next(t.Context()); websocket.CloseStatus(err) != 4401 {
			t.Errorf("closed by %v", err)
		}
	}
	t.Logf("figure: logout noticed after %v", time.Since(began).Round(time.Millisecond))
	if err := c.accounts(); err == nil {
		t.Error("the token of before still works")
	}
	c.enter(t, "demo", "demo-password")
	if err := c.accounts(); err != nil {
		t.Errorf("after logging in again: %v", err)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
