package local

import (
	"database/sql"
	"errors"
	"reflect"
	"testing"

	"github.com/ruedahq/rueda/broker"
)

// TestBadRecord checks that a user with unreadable rights is not an outage, and that clients
// without the password get no hint; such a user can be disabled.
func TestBadRecord(t *testing.T) {
	everywhere(t, func(t *testing.T, db *sql.DB) {
		b := openBase(t, db)
		ctx := t.Context()
		ana, eva := add(t, b, "ana", "ana has a long one"), add(t, b, "eva", "eva has a long one")
		if err := b.AddGroup(ctx, "equity", Rights{Scopes: []string{broker.ScopeRead}}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Join(ctx, "eva", "equity"); err != nil {
			t.Fatal(err)
		}
		login := func(name, password string) error {
			_, err := b.Authenticate(ctx, broker.Login{Username: name, Password: password})
			return err
		}
		for _, c := range []struct{ what, damage, name, id string }{
			{"own rights", `UPDATE users SET entitlements = '{"market":' WHERE username = 'ana'`, "ana", ana.ID},
			{"a group's", `UPDATE groups SET limits = '[1]'`, "eva", eva.ID},
		} {
			if _, err := db.ExecContext(ctx, c.damage); err != nil {
				t.Fatal(err)
			}
			if _, err := b.User(ctx, c.id); !errors.Is(err, broker.ErrBadUser) || errors.Is(err, broker.ErrUnavailable) {
				t.Errorf("%s: read by id: %v", c.what, err)
			}
			if err := login(c.name, "wrong but long"); !errors.Is(err, broker.ErrInvalidCredentials) {
				t.Errorf("%s: wrong password: %v", c.what, err)
			}
			if err := login(c.name, c.name+" has a long one"); !errors.Is(err, broker.ErrBadUser) || errors.Is(err, broker.ErrInvalidCredentials) {
				t.Errorf("%s: right password: %v", c.what, err)
			}
			if _, err := b.Entry(ctx, c.name); !errors.Is(err, broker.ErrBadUser) {
				t.Errorf("%s: shown: %v", c.what, err)
			}
		}
		if _, err := b.List(ctx); !errors.Is(err, broker.ErrBadUser) {
			t.Errorf("listed: %v", err)
		}
		if err := b.Disable(ctx, "ana"); err != nil {
			t.Fatal(err)
		}
		answers, err := b.UsersByID(ctx, []string{ana.ID, eva.ID})
		if err != nil || !errors.Is(answers[0].Err, broker.ErrDisabled) || !errors.Is(answers[1].Err, broker.ErrBadUser) {
			t.Errorf("%+v, %v", answers, err)
		}
	})
}

// TestUsersByID checks that a batch has the same results as User.
func TestUsersByID(t *testing.T) {
	everywhere(t, func(t *testing.T, db *sql.DB) {
		b := openBase(t, db)
		ctx := t.Context()
		ids := []string{"us_nobody", "", "a\x00b"}
		for _, name := range []string{"ana", "eva", "iris"} {
			ids = append(ids, add(t, b, name, name+" has a long one").ID)
			for _, group := range []string{"equity-" + name, "bonds-" + name} {
				if err := b.AddGroup(ctx, group, Rights{Scopes: []string{broker.ScopeRead, group}}); err != nil {
					t.Fatal(err)
				}
				if _, err := b.Join(ctx, name, group); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := b.Disable(ctx, "eva"); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, ids[3]) // a duplicate
		answers, err := b.UsersByID(ctx, ids)
		if err != nil || len(answers) != len(ids) {
			t.Fatalf("%d answers, %v", len(answers), err)
		}
		for i, id := range ids {
			want, wrong := b.User(ctx, id)
			if got := answers[i]; !reflect.DeepEqual(got.User, want) || !errors.Is(got.Err, wrong) {
				t.Errorf("%q: %+v, want %+v, %v", id, got, want, wrong)
			}
		}
		if answers, err := b.UsersByID(ctx, nil); err != nil || len(answers) != 0 {
			t.Errorf("of none: %v, %v", answers, err)
		}
	})
}
