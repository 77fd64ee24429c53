package sqlusers

import (
	"bytes"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/broker"
)

// FuzzRow reads any text in any column: an invalid user is refused by the row or by Check.
func FuzzRow(f *testing.F) {
	for _, text := range []string{`1`, `true`, `2024-01-02 03:04:05`, `a b`, `["a","b"]`, `[{"market":"*","depth":-1}]`, `{"connections":1}`, `[`, "\xff", `nul`} {
		f.Add(text)
	}
	columns := []string{"id", "username", "password_hash", "version", "disabled", "scopes", "groups", "entitlements", "limits", "networks", "expires_at"}
	f.Fuzz(func(t *testing.T, text string) {
		for _, c := range columns {
			r := row{"id": int64(1), "username": "ana", "version": int64(1)}
			r[c] = text
			p, err := r.person()
			if err == nil && p.Check() == nil && (p.ID == "" || p.Username == "") {
				t.Errorf("%s %q: %+v", c, text, p)
			}
			a := row{"account_id": "a", "number": "1", "type": "cash", "status": "active", "currency": "ARS", c: text}
			if account, err := a.account(); err == nil && (account.ID == "" || account.Number == "") {
				t.Errorf("%s %q: %+v", c, text, account)
			}
		}
	})
}

// TestPeopleDoNotShare checks that rights of groups do not leak into other rows.
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

// TestBadRecordsAreLoggedOnce checks that a user who cannot log in is logged once an hour, and that
// the memory for this is bounded.
func TestBadRecordsAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		d := badRecordLog{log: slog.New(slog.NewTextHandler(&log, nil))}
		for range 3 {
			d.report("17", errors.New("a hash"))
			d.report("18", errors.New("a row"))
		}
		time.Sleep(59 * time.Minute)
		d.report("17", errors.New("a hash"))
		if n := strings.Count(log.String(), "user=17"); n != 1 || strings.Count(log.String(), "\n") != 2 {
			t.Errorf("within an hour:\n%s", log.String())
		}
		time.Sleep(time.Minute)
		d.report("17", errors.New("a hash"))
		if n := strings.Count(log.String(), "user=17"); n != 2 {
			t.Errorf("after an hour, %d lines", n)
		}
		for i := range 2 * maxReported {
			d.report("x"+strconv.Itoa(i), errors.New("a hash"))
		}
		if len(d.reported) > maxReported {
			t.Errorf("%d users are remembered", len(d.reported))
		}
		time.Sleep(reportInterval)
		log.Reset()
		d.report("new", errors.New("a hash"))
		if !strings.Contains(log.String(), "user=new") {
			t.Error("those of an hour ago still take all room")
		}
	})
}
