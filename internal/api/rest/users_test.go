package rest_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/internal/api/rest"
	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auth"
)

// identityGateway is the administrator's handler of a gateway with local users and three operators.
type identityGateway struct {
	*testing.T
	*gateway
	users  *local.Base
	admin  http.Handler
	events []audit.Event // of changes of users
	broken error         // of the audit log
}

// newIdentityGateway returns one whose operators are named after their roles, and have the tokens
// "the token of read" and so on.
func newIdentityGateway(t *testing.T) *identityGateway {
	t.Helper()
	g := &identityGateway{T: t}
	g.users = newAuditedUsers(t, func(e audit.Event) error {
		if g.broken == nil {
			g.events = append(g.events, e)
		}
		return g.broken
	})
	g.events = nil
	g.gateway = newGateway(t, func(_ *rest.Config, a *auth.Config) { a.Users = g.users })
	var operators []rest.Operator
	for _, role := range []rest.Role{rest.RoleRead, rest.RoleOperate, rest.RoleIdentity} {
		operators = append(operators, rest.Operator{Name: role.String(), Role: role, Hash: sha256.Sum256([]byte("the token of " + role.String()))})
	}
	var err error
	g.admin, err = rest.NewAdmin(rest.AdminConfig{
		Auth: g.service, Users: g.users, Operators: func() []rest.Operator { return operators }, Logger: g.logger(),
	})
	if err != nil {
		t.Fatal(err)
	}
	g.admin = described(t, "/admin/openapi.json", g.admin)
	return g
}

// as sends a request of an operator. Its body is JSON.
func (g *identityGateway) as(operator, method, path, body string) (status int, answer map[string]any) {
	g.Helper()
	w := ask(g.T, g.admin, method, path, body, "Authorization", "Bearer the token of "+operator, "Content-Type", "application/json", "User-Agent", "console")
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		g.Fatalf("%s %s: %s", method, path, w.Body)
	}
	if data, ok := answer["data"].(map[string]any); ok {
		return w.Code, data
	}
	return w.Code, answer["error"].(map[string]any)
}

func (g *identityGateway) idOf(username string) string {
	g.Helper()
	e, err := g.users.Entry(g.Context(), username)
	if err != nil {
		g.Fatal(err)
	}
	return e.ID
}

// TestThreat35OperatorRoles checks what each role allows, on each route.
func TestThreat35OperatorRoles(t *testing.T) {
	g := newIdentityGateway(t)
	id := g.idOf("ana")
	for _, tt := range []struct {
		method, path, body string
		least              rest.Role
	}{
		{"GET", "/admin/users/" + id + "/sessions", "", rest.RoleRead},
		{"DELETE", "/admin/users/" + id + "/sessions", "", rest.RoleOperate},
		{"GET", "/admin/users", "", rest.RoleIdentity},
		{"GET", "/admin/users/" + id, "", rest.RoleIdentity},
		{"POST", "/admin/users/" + id, `{"action":"enable"}`, rest.RoleIdentity},
	} {
		for _, role := range []rest.Role{rest.RoleRead, rest.RoleOperate, rest.RoleIdentity} {
			status, answer := g.as(role.String(), tt.method, tt.path, tt.body)
			if role >= tt.least {
				if status != http.StatusOK {
					t.Errorf("%s %s with the role %s: %d %v", tt.method, tt.path, role, status, answer)
				}
				continue
			}
			hint := "It needs the role " + tt.least.String() + " in the operator's line of token_file"
			if status != http.StatusForbidden || answer["reason"] != "forbidden" || answer["hint"] != hint {
				t.Errorf("%s %s with the role %s: %d %v", tt.method, tt.path, role, status, answer)
			}
		}
	}
	if status, answer := g.as("read", "DELETE", "/admin/sessions/"+id, ""); status != http.StatusForbidden {
		t.Errorf("end a login with the role read: %d %v", status, answer)
	}
	// The only token belongs to no person, so it changes no user.
	if w := ask(t, newAdmin(t, g.gateway), "GET", "/admin/users/"+id, "", "Authorization", "Bearer "+adminToken); w.Code != http.StatusForbidden {
		t.Errorf("the token without a name: %d %s", w.Code, w.Body)
	}
}

// TestThreat35UserChanges checks that each action of an operator changes the user as it says, and
// has one row in the audit log with the operator's name and address.
func TestThreat35UserChanges(t *testing.T) {
	g := newIdentityGateway(t)
	ctx, id := t.Context(), g.idOf("ana")
	if err := g.users.AddGroup(ctx, "desk", local.Rights{}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.users.RequireFactor(ctx, "desk", true); err != nil {
		t.Fatal(err)
	}
	if _, err := g.users.EnableSecondFactor(ctx, "ana", ""); err != nil {
		t.Fatal(err)
	}
	before, err := g.users.User(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	g.events = nil
	end := time.Now().AddDate(1, 0, 0).UTC().Truncate(time.Second).Format(time.RFC3339)
	for _, tt := range []struct {
		body, member string
		want         any
		detail       string // of the audit row; "": nothing changes
	}{
		{`{"action":"set_expiry","expires_at":"` + end + `"}`, "expires_at", end, "expires " + end},
		{`{"action":"set_expiry","expires_at":null}`, "expires_at", nil, "does not expire"},
		{`{"action":"set_networks","networks":["192.0.2.0/24","2001:db8::7"]}`, "networks", []any{"192.0.2.0/24", "2001:db8::7/128"}, "network 192.0.2.0/24; network 2001:db8::7/128"},
		{`{"action":"set_networks","networks":[]}`, "networks", []any{}, "without network 192.0.2.0/24; without network 2001:db8::7/128"},
		{`{"action":"join_group","group":"desk"}`, "second_factor_required", true, "joins group desk"},
		{`{"action":"join_group","group":"desk"}`, "groups", []any{"desk"}, ""},
		{`{"action":"leave_group","group":"desk"}`, "groups", []any{}, "leaves group desk"},
		{`{"action":"reset_second_factor"}`, "second_factor", false, "second factor disabled"},
		{`{"action":"reset_second_factor"}`, "second_factor", false, ""},
		{`{"action":"disable"}`, "status", "disabled", "disabled"},
		{`{"action":"disable"}`, "status", "disabled", ""},
		{`{"action":"enable"}`, "status", "active", "enabled"},
		{`{"action":"set_expiry","expires_at":"2020-01-01T00:00:00Z"}`, "status", "expired", "expires 2020-01-01"},
	} {
		g.events = nil
		status, user := g.as("identity", "POST", "/admin/users/"+id, tt.body)
		if status != http.StatusOK || !reflect.DeepEqual(user[tt.member], tt.want) || user["username"] != "ana" {
			t.Errorf("%s: %d %v", tt.body, status, user)
		}
		if _, now := g.as("identity", "GET", "/admin/users/"+id, ""); !reflect.DeepEqual(now, user) {
			t.Errorf("%s: answered %v, then %v", tt.body, user, now)
		}
		var details []string
		for _, e := range g.events {
			details = append(details, e.Detail)
			if e.Actor != "administrator (identity)" || e.User != id || e.Address != "192.0.2.1" || e.Client != "console" {
				t.Errorf("%s: the audit log has %+v", tt.body, e)
			}
		}
		if strings.Join(details, ";") != tt.detail || len(details) > 1 {
			t.Errorf("%s: the audit log has %q", tt.body, details)
		}
	}
	if _, err := g.users.User(ctx, id); !errors.Is(err, broker.ErrDisabled) {
		t.Errorf("an account that has ended: %v", err)
	}
	g.as("identity", "POST", "/admin/users/"+id, `{"action":"set_expiry","expires_at":null}`)
	if now, err := g.users.User(ctx, id); err != nil || now.Version <= before.Version {
		t.Errorf("logins of before were not ended: version %d, then %d, %v", before.Version, now.Version, err)
	}
}

// TestThreat35ChangeNeedsItsAuditRow checks that a change of an operator is not made if its audit
// row cannot be written.
func TestThreat35ChangeNeedsItsAuditRow(t *testing.T) {
	g := newIdentityGateway(t)
	id := g.idOf("ana")
	if err := g.users.AddGroup(t.Context(), "desk", local.Rights{}); err != nil {
		t.Fatal(err)
	}
	_, before := g.as("identity", "GET", "/admin/users/"+id, "")
	g.broken = errDown
	for _, body := range []string{
		`{"action":"disable"}`, `{"action":"set_expiry","expires_at":"2030-01-01T00:00:00Z"}`,
		`{"action":"set_networks","networks":["192.0.2.0/24"]}`, `{"action":"join_group","group":"desk"}`,
	} {
		if status, answer := g.as("identity", "POST", "/admin/users/"+id, body); status != http.StatusServiceUnavailable || answer["reason"] != "unavailable" {
			t.Errorf("%s: %d %v", body, status, answer)
		}
	}
	if _, now := g.as("identity", "GET", "/admin/users/"+id, ""); !reflect.DeepEqual(now, before) {
		t.Errorf("before %v, now %v", before, now)
	}
}

// TestUserRequestsRefused checks the answers to bodies and parameters that are not understood. None
// of them changes anything.
func TestUserRequestsRefused(t *testing.T) {
	g := newIdentityGateway(t)
	id := g.idOf("ana")
	for _, tt := range []struct {
		path, body, reason string
		status             int
	}{
		{id, ``, "bad_json", 400}, {id, `[]`, "bad_json", 400}, {id, `{}`, "invalid_request", 400},
		{id, `{"action":"remove"}`, "bad_field", 400}, {id, `{"action":7}`, "bad_field", 400},
		{id, `{"action":"set_expiry"}`, "invalid_request", 400}, {id, `{"action":"set_expiry","expires":null}`, "invalid_request", 400},
		{id, `{"action":"set_expiry","expires_at":"tomorrow"}`, "bad_field", 400}, {id, `{"action":"set_expiry","expires_at":0}`, "bad_field", 400},
		{id, `{"action":"set_expiry","expires_at":"1970-01-01T00:00:00Z"}`, "bad_field", 400},
		{id, `{"action":"set_networks"}`, "bad_field", 400}, {id, `{"action":"set_networks","networks":null}`, "bad_field", 400},
		{id, `{"action":"set_networks","networks":["192.0.2.1/24"]}`, "bad_field", 400}, {id, `{"action":"set_networks","networks":[7]}`, "bad_field", 400},
		{id, `{"action":"set_networks","networks":["192.0.2.0/24","192.0.2.0/24"]}`, "bad_field", 400},
		{id, `{"action":"join_group"}`, "bad_field", 400}, {id, `{"action":"join_group","group":"x\u0000"}`, "bad_field", 400},
		{id, `{"action":"join_group","group":"nobody's"}`, "unsupported_option", 422},
		{id, `{"action":"disable","x":"` + strings.Repeat("x", 10_000) + `"}`, "body_too_big", 413},
		{id + "?x=1", `{"action":"disable"}`, "bad_field", 400},
		{"ana", `{"action":"disable"}`, "not_found", 404}, {"us_%00", `{"action":"disable"}`, "not_found", 404},
	} {
		if status, answer := g.as("identity", "POST", "/admin/users/"+tt.path, tt.body); status != tt.status || answer["reason"] != tt.reason {
			t.Errorf("%s %.60s: %d %v", tt.path, tt.body, status, answer)
		}
	}
	for query, want := range map[string]int{
		"limit=0": 400, "cursor=x": 400, "name=": 400, "username=ana": 400, "cursor=dQA": 400, "name=%00": 200, "name=nobody": 200,
	} {
		if status, answer := g.as("identity", "GET", "/admin/users?"+query, ""); status != want {
			t.Errorf("%s: %d %v", query, status, answer)
		}
	}
	if len(g.events) > 0 {
		t.Errorf("something changed: %v", g.events)
	}
	w := ask(t, g.admin, "POST", "/admin/users/"+id, `{"action":"disable"}`, "Authorization", "Bearer the token of identity", "Content-Type", "text/plain")
	if w.Code != http.StatusUnsupportedMediaType {
		t.Errorf("another media type: %d", w.Code)
	}
}

// TestThreat46RightsWithoutNetworks checks that rights without one of their members are refused. A
// change that does not name the networks or limits of a user or group must not remove them.
func TestThreat46RightsWithoutNetworks(t *testing.T) {
	g := newIdentityGateway(t)
	id := g.idOf("ana")
	user, group := "/admin/users/"+id, "/admin/groups/desk"
	full := map[string]any{
		"scopes": []any{"marketdata:read"}, "entitlements": []any{}, "limits": map[string]any{"connections": 1.0}, "networks": []any{"192.0.2.0/24"},
	}
	body := func(rights map[string]any, rest string) string {
		text, err := json.Marshal(rights)
		if err != nil {
			t.Fatal(err)
		}
		return `{"rights":` + string(text) + rest + `}`
	}
	const change, addUser = `,"action":"set_rights"`, `,"username":"eva","password":"correct horse battery"`
	for path, rest := range map[string]string{user: change, "/admin/groups": `,"name":"desk"`} {
		if status, answer := g.as("identity", "POST", path, body(full, rest)); status != http.StatusOK {
			t.Fatal(path, status, answer)
		}
	}
	_, before := g.as("identity", "GET", user, "")
	for _, name := range []string{"scopes", "entitlements", "limits", "networks"} {
		for _, null := range []bool{false, true} {
			rights := maps.Clone(full)
			if rights[name] = nil; !null {
				delete(rights, name)
			}
			for path, rest := range map[string]string{user: change, group: change, "/admin/groups": `,"name":"floor"`, "/admin/users": addUser} {
				g.events = nil
				if status, answer := g.as("identity", "POST", path, body(rights, rest)); status != http.StatusBadRequest || answer["reason"] != "bad_field" {
					t.Errorf("%s without %s: %d %v", path, name, status, answer)
				}
				if len(g.events) > 0 {
					t.Errorf("%s without %s has changed %v", path, name, g.events)
				}
			}
		}
	}
	if _, now := g.as("identity", "GET", user, ""); !reflect.DeepEqual(now, before) {
		t.Errorf("before %v, now %v", before, now)
	}
}

// TestThreat45GroupIsBornWithItsFactor checks that a new group that requires a second factor is
// added in one transaction, with one row in the audit log. A failure leaves no group without it.
func TestThreat45GroupIsBornWithItsFactor(t *testing.T) {
	g := newIdentityGateway(t)
	status, group := g.as("identity", "POST", "/admin/groups", `{"name":"desk","second_factor_required":true}`)
	if status != http.StatusOK || group["second_factor_required"] != true {
		t.Errorf("%d %v", status, group)
	}
	if len(g.events) != 1 || g.events[0].Detail != "group desk added; second factor required" {
		t.Errorf("the audit log has %+v", g.events)
	}
}

// TestUserPages reads all users in pages, and one by name.
func TestUserPages(t *testing.T) {
	g := newIdentityGateway(t)
	var want, got []string
	for _, name := range []string{"eva", "Eva's sister", "zoë", "maria"} {
		if _, err := g.users.Add(t.Context(), local.NewUser{Username: name, Password: "a long password of " + name}); err != nil {
			t.Fatal(err)
		}
	}
	all, err := g.users.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range all {
		want = append(want, u.Username)
	}
	path := "/admin/users?limit=2"
	for pages := 1; ; pages++ {
		status, answer := g.as("identity", "GET", path, "")
		if status != http.StatusOK {
			t.Fatalf("%s: %d %v", path, status, answer)
		}
		for _, u := range answer["users"].([]any) {
			got = append(got, u.(map[string]any)["username"].(string))
		}
		next, more := answer["next_cursor"].(string)
		if !more {
			if pages != 3 {
				t.Errorf("%d pages", pages)
			}
			break
		}
		path = "/admin/users?limit=2&cursor=" + next
	}
	if !slices.Equal(got, want) {
		t.Errorf("pages have %q, want %q", got, want)
	}
	_, one := g.as("identity", "GET", "/admin/users?name="+url.QueryEscape("Eva's sister"), "")
	if list := one["users"].([]any); len(list) != 1 || list[0].(map[string]any)["username"] != "Eva's sister" {
		t.Errorf("by name: %v", one)
	}
}

// TestUsersOfAnotherBase checks that users of the broker's own user base are not managed here.
func TestUsersOfAnotherBase(t *testing.T) {
	g := newGateway(t, nil)
	admin, err := rest.NewAdmin(rest.AdminConfig{Auth: g.service, Operators: func() []rest.Operator {
		return []rest.Operator{{Name: "ana", Role: rest.RoleIdentity, Hash: sha256.Sum256([]byte("her token"))}}
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range [][3]string{{"GET", "/admin/users", ""}, {"GET", "/admin/users/u1", ""}, {"POST", "/admin/users/u1", `{"action":"disable"}`}} {
		w := ask(t, described(t, "/admin/openapi.json", admin), r[0], r[1], r[2], "Authorization", "Bearer her token", "Content-Type", "application/json")
		if w.Code != http.StatusUnprocessableEntity || member(t, w, "reason") != "unsupported_option" {
			t.Errorf("%s %s: %d %s", r[0], r[1], w.Code, w.Body)
		}
	}
}
