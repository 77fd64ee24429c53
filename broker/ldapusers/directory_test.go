package ldapusers_test

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/brokertest"
	"github.com/ruedahq/rueda/broker/ldapusers"
	"github.com/ruedahq/rueda/internal/testing/ldaptest"
)

const (
	service         = "cn=rueda," + ldaptest.Suffix
	servicePassword = "service-canary-password"
	people          = "ou=people," + ldaptest.Suffix
	traders         = "cn=Traders,ou=groups," + ldaptest.Suffix
)

// entries are a service account, four people and a group. Two of them have the same name.
const entries = `dn: dc=broker,dc=example
objectClass: domain
dc: broker

dn: cn=rueda,dc=broker,dc=example
objectClass: applicationProcess
objectClass: simpleSecurityObject
cn: rueda
userPassword: service-canary-password

dn: ou=people,dc=broker,dc=example
objectClass: organizationalUnit
ou: people

dn: ou=groups,dc=broker,dc=example
objectClass: organizationalUnit
ou: groups

dn: uid=ana,ou=people,dc=broker,dc=example
objectClass: inetOrgPerson
uid: ana
cn: Ana
sn: Ana
userPassword: correct horse
entryUUID: 11111111-1111-4111-8111-111111111111
pwdChangedTime: 20240102030405Z
memberOf: cn=traders,ou=Groups,dc=broker,dc=example

dn: uid=bea,ou=people,dc=broker,dc=example
objectClass: inetOrgPerson
uid: bea
cn: Bea
sn: Bea
userPassword: battery staple
entryUUID: 22222222-2222-4222-8222-222222222222

dn: uid=carl,ou=people,dc=broker,dc=example
objectClass: inetOrgPerson
uid: carl
cn: Carl
sn: Carl
userPassword: out of order
employeeType: disabled
entryUUID: 33333333-3333-4333-8333-333333333333

dn: cn=Dora,ou=people,dc=broker,dc=example
objectClass: inetOrgPerson
uid: twin
cn: Dora
sn: Dora
userPassword: same name

dn: cn=Dolores,ou=people,dc=broker,dc=example
objectClass: inetOrgPerson
uid: twin
cn: Dolores
sn: Dolores
userPassword: same name

dn: cn=Traders,ou=groups,dc=broker,dc=example
objectClass: groupOfNames
cn: Traders
member: uid=ana,ou=people,dc=broker,dc=example
`

func config(s *ldaptest.Server) ldapusers.Config {
	return ldapusers.Config{
		URL: s.SecureURL, Authorities: s.Authorities,
		BindDN: service, BindPassword: servicePassword,
		Base: people, Version: "pwdChangedTime", Disabled: "(employeeType=disabled)",
		Expires: "description", Networks: "businessCategory",
		Rights: broker.Rights{Scopes: []string{broker.ScopeRead}},
		Groups: map[string]broker.Rights{traders: {
			Scopes:       []string{broker.ScopeRead, broker.ScopeDepth},
			Entitlements: []broker.Entitlement{{Market: "*", Trades: true, Depth: 10}},
			Limits:       broker.Limits{Connections: 4},
		}},
	}
}

func open(t *testing.T, cfg ldapusers.Config) *ldapusers.Users {
	t.Helper()
	u, err := ldapusers.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = u.Close() })
	return u
}

// change changes an entry as the administrator of the directory.
func change(t *testing.T, s *ldaptest.Server, dn, attribute string, values ...string) {
	t.Helper()
	conn, err := ldap.DialURL(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Bind(ldaptest.Admin, ldaptest.AdminPassword); err != nil {
		t.Fatal(err)
	}
	r := ldap.NewModifyRequest(dn, nil)
	r.Replace(attribute, values)
	if err := conn.Modify(r); err != nil {
		t.Fatal(err)
	}
}

// seed returns the users for brokertest.
func seed(t *testing.T, s *ldaptest.Server, u *ldapusers.Users) brokertest.Base {
	return brokertest.Base{
		Users: u, Accounts: twoAccounts{},
		Trader:   brokertest.Login{ID: "11111111-1111-4111-8111-111111111111", Username: "ana", Password: "correct horse"},
		Other:    brokertest.Login{ID: "22222222-2222-4222-8222-222222222222", Username: "bea", Password: "battery staple"},
		Disabled: brokertest.Login{ID: "33333333-3333-4333-8333-333333333333", Username: "carl", Password: "out of order"},
		SetPassword: func(_ context.Context, username, password string) error {
			change(t, s, "uid="+username+","+people, "userPassword", password)
			return nil
		},
		Disable: func(_ context.Context, username string) error {
			change(t, s, "uid="+username+","+people, "employeeType", "disabled")
			return nil
		},
		SetNetworks: func(_ context.Context, username string, networks []netip.Prefix) error {
			var values []string
			for i, p := range networks {
				if i == 1 { // two in a value
					values[0] += " " + p.String()
					continue
				}
				values = append(values, p.String())
			}
			change(t, s, "uid="+username+","+people, "businessCategory", values...)
			return nil
		},
		SetExpiry: func(_ context.Context, username string, at time.Time) error {
			values := []string{at.UTC().Format("20060102150405Z")}
			if at.IsZero() {
				values = nil
			}
			change(t, s, "uid="+username+","+people, "description", values...)
			return nil
		},
	}
}

// twoAccounts returns ana's accounts, which come from outside the directory.
type twoAccounts struct{}

func (twoAccounts) ListAccounts(_ context.Context, id string) ([]broker.Account, error) {
	list := []broker.Account{}
	if strings.HasSuffix(id, "-111111111111") {
		for _, n := range []string{"1", "2"} {
			list = append(list, broker.Account{
				ID: "a" + n, Number: n, Type: "cash", Status: "active", Currency: "ARS",
				Currencies: []string{}, Roles: []string{}, Permissions: []string{},
			})
		}
	}
	return list, nil
}
