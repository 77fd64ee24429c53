package sqlusers

import (
	"testing"

	"github.com/ruedahq/rueda/broker"
)

// FuzzRow reads any text in any column: a user that cannot be one is refused by the row or by Check.
func FuzzRow(f *testing.F) {
	for _, text := range []string{`1`, `true`, `2024-01-02 03:04:05`, `a b`, `["a","b"]`, `[{"market":"*","depth":-1}]`, `{"connections":1}`, `[`, "\xff", `nul`} {
		f.Add(text)
	}
	columns := []string{"id", "username", "password_hash", "version", "disabled", "scopes", "groups", "entitlements", "limits"}
	f.Fuzz(func(t *testing.T, text string) {
		for _, c := range columns {
			r := row{"id": int64(1), "username": "ana", "version": int64(1)}
			r[c] = text
			p, err := r.person()
			if err == nil && p.Check() == nil && (p.ID == "" || p.Username == "") {
				t.Errorf("%s %q: %+v", c, text, p)
			}
			a := row{"account_id": "a", "number": "1", "type": "cash", "status": "active", "currency": "ARS", c: text}
			if account, err := a.account(); err == nil && (account.ID == "" || account.Roles == nil) {
				t.Errorf("%s %q: %+v", c, text, account)
			}
		}
	})
}

// TestPeopleDoNotShare: a row's rights are the row's own, whatever groups add.
func TestPeopleDoNotShare(t *testing.T) {
	rights := broker.Rights{Scopes: []string{"a"}, Entitlements: []broker.Entitlement{{Market: "*"}}}
	u := &Users{groups: map[string]broker.Rights{"g": rights}}
	p := person{groups: []string{"g", "g", "none"}}
	u.grant(&p)
	p.Scopes[0], p.Entitlements[0].Market = "changed", "changed"
	if rights.Scopes[0] != "a" || rights.Entitlements[0].Market != "*" || len(p.Scopes) != 1 || len(p.Entitlements) != 1 {
		t.Errorf("%+v, %+v", rights, p)
	}
}
