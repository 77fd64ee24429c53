package ldapusers_test

import (
	"context"
	"errors"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/brokertest"
	"github.com/ruedahq/rueda/broker/guard"
	"github.com/ruedahq/rueda/broker/ldapusers"
	"github.com/ruedahq/rueda/internal/testing/ldaptest"
)

func TestConformanceE2E(t *testing.T) {
	brokertest.Run(t, func(t *testing.T) brokertest.Base {
		s := ldaptest.Start(t, service, entries)
		return seed(t, s, open(t, config(s)))
	})
}

// TestConformanceStartTLSE2E also uses a guard, as the gateway does.
func TestConformanceStartTLSE2E(t *testing.T) {
	brokertest.Run(t, func(t *testing.T) brokertest.Base {
		s := ldaptest.Start(t, service, entries)
		cfg := config(s)
		cfg.URL, cfg.StartTLS = s.URL, true
		b := seed(t, s, open(t, cfg))
		b.Users = guard.Users(guard.New(guard.Config{}), b.Users)
		return b
	})
}

func login(t *testing.T, u broker.Users, name, password string) (broker.User, error) {
	t.Helper()
	return u.Authenticate(t.Context(), broker.Login{Username: name, Password: password})
}

// TestThreat29InjectionE2E tries to log in as somebody else with the syntax of filters, DNs and
// binds.
func TestThreat29InjectionE2E(t *testing.T) {
	s := ldaptest.Start(t, service, entries)
	u := open(t, config(s))
	for _, name := range []string{
		`*)(uid=*`, `*`, `a*`, `ana)(|(uid=*`, `ana)(objectClass=*`, `)(uid=ana`, `ana\00`, `\00`, "ana\x00", `\61na`, `\2a`, `ana\`,
		`' OR 1=1`, `uid=ana,ou=people,dc=broker,dc=example`, `ana,ou=people`, "ana ", " ana", "\uff41na", "a\u200bna", "", "twin",
		"ana#", "ana+cn=Ana", "\xff", strings.Repeat("a", 129),
	} {
		for _, password := range []string{"correct horse", "same name", "*", `' OR 1=1`, `\00`, "\x00", ""} {
			if user, err := login(t, u, name, password); !errors.Is(err, broker.ErrInvalidCredentials) || user.Username != "" {
				t.Errorf("%q, %q: %+v, %v", name, password, user, err)
			}
		}
	}
	for _, password := range []string{"", "\x00", "correct horse\x00", "correct horse\x00x"} { // an empty bind is anonymous and succeeds
		if _, err := login(t, u, "ana", password); !errors.Is(err, broker.ErrInvalidCredentials) || !errors.Is(err, broker.ErrNotAsked) {
			t.Errorf("password %q: %v", password, err)
		}
	}
	for _, id := range []string{"*", "*)(uid=*", `\00`, "\x00", "", "ana", "11111111-1111-4111-8111-11111111111*"} {
		if _, err := u.User(t.Context(), id); !errors.Is(err, broker.ErrNotFound) {
			t.Errorf("id %q: %v", id, err)
		}
	}
	for _, name := range []string{"ana", "Ana", "ANA"} { // all are ana
		if user, err := login(t, u, name, "correct horse"); err != nil || user.Username != "ana" {
			t.Error(user, err)
		}
	}
}

// TestThreat03SecondNameE2E checks that an entry with two names cannot log in by either. Wrong
// passwords are counted by name before the directory is asked, so that with each further name
// strangers could come closer to the directory's lockout.
func TestThreat03SecondNameE2E(t *testing.T) {
	s := ldaptest.Start(t, service, entries)
	u := open(t, config(s))
	const id = "11111111-1111-4111-8111-111111111111"
	change(t, s, "uid=ana,"+people, "uid", "ana", "anita")
	for _, name := range []string{"ana", "anita"} {
		if user, err := login(t, u, name, "correct horse"); !errors.Is(err, broker.ErrInvalidCredentials) || user.ID != "" || !strings.Contains(err.Error(), "several values of uid") {
			t.Errorf("%s: %+v, %v", name, user, err)
		}
	}
	if user, err := u.User(t.Context(), id); err != nil || user.ID != id { // logins of before continue
		t.Errorf("%+v, %v", user, err)
	}
	change(t, s, "uid=ana,"+people, "uid", "ana")
	if user, err := login(t, u, "ana", "correct horse"); err != nil || user.ID != id {
		t.Errorf("with one name: %+v, %v", user, err)
	}
}

// TestRightsE2E reads a member's rights, by the attribute of its entry and by a search of groups.
func TestRightsE2E(t *testing.T) {
	s := ldaptest.Start(t, service, entries)
	byAttribute, bySearch := config(s), config(s)
	bySearch.GroupBase, bySearch.GroupFilter = "ou=groups,"+ldaptest.Suffix, "(&(objectClass=groupOfNames)(member={dn}))"
	for _, cfg := range []ldapusers.Config{byAttribute, bySearch} {
		u := open(t, cfg)
		ana, err := login(t, u, "ana", "correct horse")
		want := broker.User{
			ID: "11111111-1111-4111-8111-111111111111", Username: "ana",
			Scopes:       []string{broker.ScopeRead, broker.ScopeDepth},
			Entitlements: []broker.Entitlement{{Market: "*", Trades: true, Depth: 10}},
			Limits:       broker.Limits{Connections: 4},
			Version:      time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC).UnixMicro(),
		}
		if err != nil || !reflect.DeepEqual(ana, want) {
			t.Errorf("%+v, %v\nwant %+v", ana, err, want)
		}
		bea, err := login(t, u, "bea", "battery staple")
		if err != nil || !reflect.DeepEqual(bea.Scopes, []string{broker.ScopeRead}) || bea.Entitlements != nil || bea.Version != 0 {
			t.Errorf("%+v, %v", bea, err)
		}
		groups, err := u.Groups(t.Context(), ana.ID)
		if err != nil || len(groups) != 1 || !strings.EqualFold(groups[0].Group, traders) || !groups[0].Granted {
			t.Errorf("groups %+v, %v", groups, err)
		}
		cfg.Groups = nil
		groups, err = open(t, cfg).Groups(t.Context(), ana.ID)
		if err != nil || len(groups) != 1 || !strings.EqualFold(groups[0].Group, traders) || groups[0].Granted {
			t.Errorf("groups without a right: %+v, %v", groups, err)
		}
	}
}

// TestThreat30UnreadableEntryE2E reads users whose entries are unreadable again and again: the
// directory is asked about the others all the time.
func TestThreat30UnreadableEntryE2E(t *testing.T) {
	s := ldaptest.Start(t, service, entries)
	const bea = "22222222-2222-4222-8222-222222222222"
	for what, spoil := range map[string]func(*ldapusers.Config){
		"version that is none": func(c *ldapusers.Config) { c.Version = "sn" },
		"name that is none":    func(c *ldapusers.Config) { c.Username = "cn" },
	} {
		t.Run(what, func(t *testing.T) {
			change(t, s, "uid=ana,"+people, "sn", "17")
			change(t, s, "uid=bea,"+people, "sn", "Bea")
			change(t, s, "uid=bea,"+people, "cn", strings.Repeat("n", 300))
			cfg := config(s)
			cfg.Filter = "(uid={username})"
			spoil(&cfg)
			g := guard.New(guard.Config{})
			u := guard.Users(g, open(t, cfg))
			for range 50 {
				if _, err := u.User(t.Context(), bea); !errors.Is(err, broker.ErrBadUser) {
					t.Fatal(err)
				}
			}
			if _, err := u.User(t.Context(), "11111111-1111-4111-8111-111111111111"); err != nil || g.State() != guard.Closed {
				t.Error("another user cannot be read:", err, g.State())
			}
		})
	}
}

// TestThreat09ExpiredAccountE2E checks that an account past its end cannot log in, and that a
// refresh, which does not bind, finds it too.
func TestThreat09ExpiredAccountE2E(t *testing.T) {
	s := ldaptest.Start(t, service, entries)
	u := open(t, config(s))
	const ana = "11111111-1111-4111-8111-111111111111"
	for value, over := range map[string]bool{"0": false, "9223372036854775807": false, "130000000000000000": true, "20200101000000Z": true, "29990101000000Z": false} {
		change(t, s, "uid=ana,"+people, "description", value)
		_, err := login(t, u, "ana", "correct horse")
		_, byID := u.User(t.Context(), ana)
		if errors.Is(err, broker.ErrInvalidCredentials) != over || errors.Is(byID, broker.ErrDisabled) != over || !over && errors.Join(err, byID) != nil {
			t.Errorf("expires %s: login %v, by id %v", value, err, byID)
		}
	}
	change(t, s, "uid=ana,"+people, "description", "soon")
	if _, err := u.User(t.Context(), ana); !errors.Is(err, broker.ErrBadUser) {
		t.Error(err)
	}
	change(t, s, "uid=ana,"+people, "description", "0")
	change(t, s, "uid=ana,"+people, "businessCategory", "192.0.2.0/24", "the office")
	if _, err := u.User(t.Context(), ana); !errors.Is(err, broker.ErrBadUser) {
		t.Errorf("a network that is none: %v", err)
	}
}

// TestCheckE2E has a directory that refuses the service account or does not have the base.
func TestCheckE2E(t *testing.T) {
	s := ldaptest.Start(t, service, entries)
	if err := open(t, config(s)).Check(t.Context()); err != nil {
		t.Error(err)
	}
	wrong, nowhere, other := config(s), config(s), config(s)
	wrong.BindPassword = "canary"
	nowhere.Base = "ou=nobody," + ldaptest.Suffix
	other.Authorities = ""
	for _, tc := range []struct {
		cfg  ldapusers.Config
		want string
		away bool
	}{{wrong, "service account", false}, {nowhere, "look for ou=nobody", false}, {other, "certificate", true}} {
		err := open(t, tc.cfg).Check(t.Context())
		if errors.Is(err, broker.ErrUnavailable) != tc.away || err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%v, want %q", err, tc.want)
		}
	}
}

// TestDirectoryDownE2E kills the directory and starts it again: an outage, never a wrong password,
// and broken connections are replaced.
func TestDirectoryDownE2E(t *testing.T) {
	s := ldaptest.Start(t, service, entries)
	u := open(t, config(s))
	for range 2 {
		if _, err := login(t, u, "ana", "correct horse"); err != nil {
			t.Fatal(err)
		}
		s.Kill()
		for _, name := range []string{"ana", "nobody"} {
			if _, err := login(t, u, name, "wrong"); !errors.Is(err, broker.ErrUnavailable) || errors.Is(err, broker.ErrInvalidCredentials) {
				t.Errorf("without a directory: %v", err)
			}
		}
		if _, err := u.User(t.Context(), "11111111-1111-4111-8111-111111111111"); !errors.Is(err, broker.ErrUnavailable) {
			t.Errorf("without a directory: %v", err)
		}
		s.Restart(t)
	}
	if _, err := login(t, u, "ana", "correct horse"); err != nil {
		t.Errorf("after the restart: %v", err)
	}
	if err := func() error { s.Kill(); return open(t, config(s)).Check(t.Context()) }(); !errors.Is(err, broker.ErrUnavailable) {
		t.Errorf("check without a directory: %v", err)
	}
	s.Restart(t)
	s.Kill() // kept connections are broken now
	s.Restart(t)
	if _, err := login(t, u, "ana", "correct horse"); err != nil {
		t.Errorf("with connections of before: %v", err)
	}
}

// TestDirectoryHangsE2E stops the process of the directory: callers get a result in time, and
// logins work when it continues.
func TestDirectoryHangsE2E(t *testing.T) {
	s := ldaptest.Start(t, service, entries)
	for _, cfg := range []ldapusers.Config{config(s), func() ldapusers.Config { c := config(s); c.URL, c.StartTLS = s.URL, true; return c }()} {
		u := open(t, cfg)
		if _, err := login(t, u, "ana", "correct horse"); err != nil {
			t.Fatal(err)
		}
		if err := s.Stall(); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 20 { // more than there are connections
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				if _, err := u.Authenticate(ctx, broker.Login{Username: "ana", Password: "wrong"}); !errors.Is(err, broker.ErrUnavailable) {
					t.Errorf("from a directory that hangs: %v", err)
				}
			})
		}
		wg.Wait()
		if err := s.Resume(); err != nil {
			t.Fatal(err)
		}
		if _, err := login(t, u, "ana", "correct horse"); err != nil {
			t.Errorf("when it goes on: %v", err)
		}
	}
}

// TestNobodyThere asks servers that accept connections and send nothing, or nonsense.
func TestNobodyThere(t *testing.T) {
	for _, speech := range []string{"", "HTTP/1.1 400 Bad Request\r\n\r\n", "\x30\x84\xff\xff\xff\xff", "\x30\x00"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Write([]byte(speech))
				wg.Go(func() {
					defer conn.Close()
					_, _ = conn.Read(make([]byte, 1))
					<-t.Context().Done()
				})
			}
		})
		cfg := config(&ldaptest.Server{})
		cfg.URL, cfg.Insecure, cfg.Authorities = "ldap://"+l.Addr().String(), true, ""
		u := open(t, cfg)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if _, err := u.User(ctx, "x"); !errors.Is(err, broker.ErrUnavailable) {
			t.Errorf("%q: %v", speech, err)
		}
		cancel()
		l.Close()
	}
}

func TestConfig(t *testing.T) {
	good := ldapusers.Config{URL: "ldaps://d.example", BindDN: service, BindPassword: "canary", Base: people, Version: "none"}
	if _, err := ldapusers.New(good); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		want   string
		change func(*ldapusers.Config)
	}{
		{"use ldaps or StartTLS", func(c *ldapusers.Config) { c.URL = "ldap://d.example" }},
		{"insecure = true", func(c *ldapusers.Config) { c.URL = "ldap://127.0.0.1" }},
		{"loopback", func(c *ldapusers.Config) { c.URL, c.Insecure = "ldap://d.example", true }},
		{"StartTLS goes with", func(c *ldapusers.Config) { c.StartTLS = true }},
		{"not with ldaps", func(c *ldapusers.Config) { c.URL = "https://d.example" }},
		{"not like ldaps", func(c *ldapusers.Config) { c.URL = "ldaps://canary:canary@d.example" }},
		{"service account is missing", func(c *ldapusers.Config) { c.BindDN = "" }},
		{"password is missing", func(c *ldapusers.Config) { c.BindPassword = "" }},
		{"base of the search is missing", func(c *ldapusers.Config) { c.Base = "" }},
		{"attribute of the version", func(c *ldapusers.Config) { c.Version = "" }},
		{"is no DN", func(c *ldapusers.Config) { c.Base = "people" }},
		{"does not contain {username}", func(c *ldapusers.Config) { c.Filter = "(uid=x)" }},
		{"filter (uid={username} is none", func(c *ldapusers.Config) { c.Filter = "(uid={username}" }},
		{"does not contain {dn}", func(c *ldapusers.Config) { c.GroupFilter = "(member=x)" }},
		{"filter x is none", func(c *ldapusers.Config) { c.Disabled = "x" }},
		{"is no attribute", func(c *ldapusers.Config) { c.ID = "uid=x" }},
		{"is no DN", func(c *ldapusers.Config) { c.Groups = map[string]broker.Rights{"traders": {}} }},
		{"authorities", func(c *ldapusers.Config) { c.Authorities = "nowhere" }},
	} {
		cfg := good
		tc.change(&cfg)
		_, err := ldapusers.New(cfg)
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%v, want %q", err, tc.want)
		}
	}
}
