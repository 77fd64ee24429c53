package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/store"
)

// console sends requests of operators to a gateway.
type console struct {
	*testing.T
	data  *Data
	admin string // URL
}

// newConsole runs a gateway with an operator for each role, whose token is "the token of ROLE".
func newConsole(t *testing.T) *console {
	t.Helper()
	data, err := OpenData(t.Context(), DataConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = data.Close() })
	var lines strings.Builder
	for _, role := range []string{"read", "operate", "identity"} {
		fmt.Fprintln(&lines, "op-"+role, tokenHash("the token of "+role), role)
	}
	b := serveAdmin(t, Config{Data: data, Admin: Admin{Listen: "127.0.0.1:0", Tokens: lines.String()}, Feeds: []Feed{{Name: "byma", Source: silentFeed{}, Late: true}}})
	return &console{t, data, "http://" + b.Admin}
}

// as sends a request with a body of JSON or none. It returns the status, and the data or the error.
func (c *console) as(role, method, path, body string) (status int, answer map[string]any) {
	c.Helper()
	r, err := http.NewRequestWithContext(c.Context(), method, c.admin+path, strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer the token of "+role)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		c.Fatal(err)
	}
	text, err := io.ReadAll(a.Body)
	_ = a.Body.Close()
	var envelope struct{ Data, Error map[string]any }
	if err != nil || json.Unmarshal(text, &envelope) != nil {
		c.Fatalf("%s %s: %v, %s", method, path, err, text)
	}
	if envelope.Error != nil {
		return a.StatusCode, envelope.Error
	}
	return a.StatusCode, envelope.Data
}

// ok fails the test if a request of the role identity is not answered with 200.
func (c *console) ok(method, path, body string) map[string]any {
	c.Helper()
	status, answer := c.as("identity", method, path, body)
	if status != http.StatusOK {
		c.Fatalf("%s %s %s: %d %v", method, path, body, status, answer)
	}
	return answer
}

// TestOperatorRoutes adds and changes users, groups and accounts, and reads the audit log of it.
func TestOperatorRoutes(t *testing.T) {
	c := newConsole(t)
	const rights = `{"scopes":["marketdata:read"],"entitlements":[{"market":"BYMA","trades":true,"quotes":false,"depth":5,"until":"2030-01-01T00:00:00Z"}],"limits":{"connections":2},"networks":["192.0.2.0/24"]}`
	const none = `{"scopes":[],"entitlements":[],"limits":{},"networks":[]}`
	c.ok("POST", "/admin/groups", `{"name":"equity","rights":`+rights+`,"second_factor_required":true}`)
	maria := c.ok("POST", "/admin/users", `{"username":"maria","password":"a long password of hers","rights":`+rights+`,"groups":["equity"]}`)
	id := maria["id"].(string)
	if fmt.Sprint(maria["groups"], maria["second_factor_required"], maria["networks"]) != "[equity] true [192.0.2.0/24]" {
		t.Errorf("the added user: %v", maria)
	}
	c.ok("POST", "/admin/users/"+id, `{"action":"set_rights","rights":`+none+`,"expected":`+rights+`}`)
	if status, e := c.as("identity", "POST", "/admin/users/"+id, `{"action":"set_rights","rights":`+rights+`,"expected":`+rights+`}`); status != 409 || e["reason"] != "conflict" {
		t.Errorf("rights that were changed: %d %v", status, e)
	}
	c.ok("POST", "/admin/users/"+id, `{"action":"set_rights","rights":`+rights+`}`)
	c.ok("POST", "/admin/users/"+id, `{"action":"set_password","password":"another long password"}`)
	accounts := c.ok("POST", "/admin/users/"+id+"/accounts", `{"number":"100001","type":"margin","currency":"USD"}`)
	if again := c.ok("GET", "/admin/users/"+id+"/accounts", ""); fmt.Sprint(again) != fmt.Sprint(accounts) || len(again["accounts"].([]any)) != 1 {
		t.Errorf("accounts %v, and then %v", accounts, again)
	}
	c.ok("POST", "/admin/groups/equity", `{"action":"set_rights","rights":`+none+`}`)
	group := c.ok("POST", "/admin/groups/equity", `{"action":"set_second_factor","required":false}`)
	if fmt.Sprint(group["members"], group["second_factor_required"]) != "1 false" {
		t.Errorf("group %v", group)
	}
	if list := c.ok("GET", "/admin/groups", "")["groups"].([]any); len(list) != 1 {
		t.Errorf("groups %v", list)
	}
	if gone := c.ok("DELETE", "/admin/groups/equity", ""); fmt.Sprint(gone["members"]) != "1" {
		t.Errorf("removed: %v", gone)
	}
	rows := c.ok("GET", "/admin/audit?user="+id, "")["rows"].([]any)
	var kinds []string
	for _, row := range rows {
		r := row.(map[string]any)
		kinds = append(kinds, fmt.Sprint(r["kind"]))
		if r["actor"] != "administrator (op-identity)" {
			t.Errorf("row %v", r)
		}
	}
	if want := "user_added grant_changed grant_changed grant_changed user_changed user_changed admin_read"; strings.Join(kinds, " ") != want {
		t.Errorf("kinds %q, want %q", kinds, want)
	}
}

// TestOperatorMistakes checks the answers to requests that cannot be served.
func TestOperatorMistakes(t *testing.T) {
	c := newConsole(t)
	if _, err := c.data.Users.Add(t.Context(), local.NewUser{Username: "maria", Password: "a long password of hers"}); err != nil {
		t.Fatal(err)
	}
	c.ok("POST", "/admin/groups", `{"name":"equity"}`)
	id := c.ok("GET", "/admin/users?name=maria", "")["users"].([]any)[0].(map[string]any)["id"].(string)
	c.ok("POST", "/admin/users/"+id+"/accounts", `{"number":"100001"}`)
	const bad = `{"scopes":[],"entitlements":[{"market":"BYMA"}],"limits":{},"networks":[]}`
	user, accounts := "/admin/users/"+id, "/admin/users/"+id+"/accounts"
	for _, m := range []struct {
		method, path, body string
		status             int
		reason             string
	}{
		{"POST", "/admin/users", `{"username":"MARIA","password":"a long password of hers"}`, 409, "conflict"},
		{"POST", "/admin/users", `{"username":"eva","password":"short"}`, 400, "bad_field"},
		{"POST", "/admin/users", `{"username":"","password":"a long password of hers"}`, 400, "bad_field"},
		{"POST", "/admin/users", `{"username":"eva","password":"a long password of hers","groups":["bonds"]}`, 422, "unsupported_option"},
		{"POST", "/admin/users", `{"username":"eva","password":"a long password of hers","rights":` + bad + `}`, 400, "bad_field"},
		{"POST", "/admin/users", `{"username":1,"password":"a long password of hers"}`, 400, "bad_field"},
		{"POST", "/admin/users", `{"user":"eva"}`, 400, "bad_field"},
		{"POST", "/admin/users", `[]`, 400, "bad_json"},
		{"POST", user, `{"action":"set_rights"}`, 400, "invalid_request"},
		{"POST", user, `{"action":"set_rights","rights":` + bad + `}`, 400, "bad_field"},
		{"POST", user, `{"action":"set_rights","rights":{"networks":["192.0.2.1/8"]}}`, 400, "bad_field"},
		{"POST", user, `{"action":"set_password"}`, 400, "invalid_request"},
		{"POST", user, `{"action":"set_password","password":"maria"}`, 400, "bad_field"},
		{"POST", "/admin/users/us_none", `{"action":"set_password","password":"another long password"}`, 404, "not_found"},
		{"POST", accounts, `{"number":"100001"}`, 409, "conflict"},
		{"POST", accounts, `{"number":"1","type":"gold"}`, 400, "bad_field"},
		{"POST", accounts, `{"number":"1","currency":"peso"}`, 400, "bad_field"},
		{"GET", "/admin/users/us_none/accounts", "", 404, "not_found"},
		{"POST", "/admin/groups", `{"name":"equity"}`, 409, "conflict"},
		{"POST", "/admin/groups", `{"name":"two words"}`, 400, "bad_field"},
		{"POST", "/admin/groups", `{"name":"a/b"}`, 400, "bad_field"},
		{"POST", "/admin/groups", `{"name":".."}`, 400, "bad_field"},
		{"POST", "/admin/groups/equity", `{"action":"close"}`, 400, "bad_field"},
		{"POST", "/admin/groups/equity", `{}`, 400, "invalid_request"},
		{"POST", "/admin/groups/equity", `{"action":"set_second_factor"}`, 400, "invalid_request"},
		{"POST", "/admin/groups/bonds", `{"action":"set_second_factor","required":true}`, 404, "not_found"},
		{"DELETE", "/admin/groups/bonds", "", 404, "not_found"},
		{"POST", "/admin/keys", `{"alg":"HS256"}`, 400, "bad_field"},
		{"POST", "/admin/keys", `{"revoke":"none"}`, 404, "not_found"},
		{"GET", "/admin/audit?kind=logins", "", 400, "bad_field"},
		{"GET", "/admin/audit?after=-1", "", 400, "bad_field"},
		{"GET", "/admin/audit?limit=0", "", 400, "bad_field"},
		{"GET", "/admin/usage?month=2026-13", "", 400, "bad_field"},
	} {
		status, e := c.as("identity", m.method, m.path, m.body)
		if status != m.status || e["reason"] != m.reason {
			t.Errorf("%s %s %s: %d %v, want %d %s", m.method, m.path, m.body, status, e, m.status, m.reason)
		}
	}
	if list, err := c.data.Users.List(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("%d users, %v", len(list), err)
	}
}

// TestThreat35OperatorRoutes checks that each route needs its role, and that refusals have a row.
func TestThreat35OperatorRoutes(t *testing.T) {
	c := newConsole(t)
	roles := []string{"read", "operate", "identity"}
	for _, r := range []struct{ method, path, body, least string }{
		{"GET", "/admin/feeds", "", "read"}, {"GET", "/admin/keys", "", "read"}, {"GET", "/admin/cluster", "", "read"},
		{"POST", "/admin/keys", "{}", "operate"}, {"GET", "/admin/audit", "", "operate"}, {"GET", "/admin/usage", "", "operate"},
		{"GET", "/admin/groups", "", "identity"}, {"POST", "/admin/groups", "{}", "identity"}, {"POST", "/admin/groups/x", "{}", "identity"},
		{"DELETE", "/admin/groups/x", "", "identity"}, {"POST", "/admin/users", "{}", "identity"},
		{"GET", "/admin/users/x/accounts", "", "identity"}, {"POST", "/admin/users/x/accounts", "{}", "identity"},
	} {
		for i, role := range roles {
			status, e := c.as(role, r.method, r.path, r.body)
			if may := i >= slices.Index(roles, r.least); may == (status == http.StatusForbidden) {
				t.Errorf("%s %s as %s: %d %v", r.method, r.path, role, status, e)
			}
		}
	}
	rows, err := c.data.db.Store.AuditLast(t.Context(), 100, "", audit.AdminRefused)
	if err != nil || len(rows) == 0 || !strings.Contains(rows[0].Actor, "op-read") {
		t.Errorf("rows %v, %v", rows, err)
	}
}

// TestOperatorReads checks feeds, keys, the pages of the audit log, and usage.
func TestOperatorReads(t *testing.T) {
	c := newConsole(t)
	if f := c.ok("GET", "/admin/feeds", "")["feeds"].([]any); len(f) != 1 || f[0].(map[string]any)["name"] != "byma" {
		t.Errorf("feeds %v", f)
	}
	if status, e := c.as("read", "GET", "/admin/cluster", ""); status != 422 || e["reason"] != "unsupported_option" {
		t.Errorf("the cluster of a gateway without one: %d %v", status, e)
	}
	before := c.ok("GET", "/admin/keys", "")["keys"].([]any)
	old := before[0].(map[string]any)["kid"].(string)
	if status, e := c.as("operate", "POST", "/admin/keys", `{"revoke":"`+old+`"}`); status != 409 || e["reason"] != "conflict" {
		t.Errorf("the key that signs was revoked: %d %v", status, e)
	}
	status, rotated := c.as("operate", "POST", "/admin/keys", `{"now":true,"revoke":"`+old+`"}`)
	if status != 200 || len(rotated["changes"].([]any)) == 0 || !strings.Contains(fmt.Sprint(rotated["keys"]), "revoked") {
		t.Errorf("rotated: %d %v", status, rotated)
	}
	rows, err := c.data.db.Store.AuditLast(t.Context(), 100, "", audit.KeyChanged)
	if err != nil || len(rows) == 0 || rows[len(rows)-1].Actor != "administrator (op-operate)" {
		t.Errorf("rows %v, %v", rows, err)
	}
	var seen int
	after := "0"
	for range 100 {
		page := c.ok("GET", "/admin/audit?limit=2&after="+after, "")
		list := page["rows"].([]any)
		seen += len(list)
		if after = fmt.Sprint(page["last"]); len(list) < 2 {
			break
		}
	}
	if all, err := c.data.db.Store.AuditLast(t.Context(), 1000, "", ""); err != nil || seen != len(all) || seen < 5 {
		t.Errorf("%d rows in pages, %d in the log, %v", seen, len(all), err)
	}
	day := time.Date(2026, 11, 3, 12, 0, 0, 0, time.UTC)
	if err := c.data.db.Store.AddUsage(t.Context(), []store.Usage{{Month: "2026-11", UserID: "us_x", Market: "BYMA", Level: "trades", Days: 1<<2 | 1<<4, Connections: 2, First: day, Last: day}}); err != nil {
		t.Fatal(err)
	}
	status, report := c.as("operate", "GET", "/admin/usage?month=2026-11", "")
	if list := report["rows"].([]any); status != 200 || len(list) != 1 || fmt.Sprint(list[0].(map[string]any)["days"]) != "[3 5]" {
		t.Errorf("usage: %d %v", status, report)
	}
}

// silentFeed is a feed that publishes nothing.
type silentFeed struct{}

func (silentFeed) Run(ctx context.Context, _ feed.Sink) error {
	<-ctx.Done()
	return nil
}
