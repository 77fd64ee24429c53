package rest_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/api/rest"
	"github.com/ruedahq/rueda/internal/base/audit"
)

// TestReload checks the answers of POST /admin/reload: what has changed, mistakes, an audit log
// that is down, and a program that cannot reload.
func TestReload(t *testing.T) {
	var applied, restart, mistakes []string
	var by audit.Event
	var broken error
	g := newOperatedGateway(t, newGateway(t, nil), func(c *rest.AdminConfig) {
		c.Reload = func(_ context.Context, e audit.Event) ([]string, []string, []string, error) {
			by = e
			return applied, restart, mistakes, broken
		}
	})
	list := func(answer map[string]any, name string) (all []string) {
		for _, v := range answer[name].([]any) {
			all = append(all, v.(string))
		}
		return all
	}
	for range 2 {
		status, answer := g.as("operate", "POST", "/admin/reload", "")
		if status != http.StatusOK || !slices.Equal(list(answer, "applied"), applied) || !slices.Equal(list(answer, "restart"), restart) {
			t.Errorf("%d %v", status, answer)
		}
		applied, restart = []string{"limits.sockets"}, []string{"listen", "data"}
	}
	if by.Actor != "administrator (operate)" || by.Address != "192.0.2.1" || by.Client != "console" {
		t.Errorf("by %+v", by)
	}
	for i := range 30 {
		mistakes = append(mistakes, fmt.Sprintf("rueda.toml:%d: wrong", i))
	}
	status, answer := g.as("operate", "POST", "/admin/reload", "")
	if details := answer["details"].([]any); status != http.StatusUnprocessableEntity || answer["reason"] != "unsupported_option" || len(details) != 20 ||
		!strings.Contains(fmt.Sprint(details[7]), "rueda.toml:7: wrong") {
		t.Errorf("mistakes: %d %v", status, answer)
	}
	mistakes, broken = nil, errDown
	if status, answer := g.as("operate", "POST", "/admin/reload", ""); status != http.StatusServiceUnavailable || answer["reason"] != "unavailable" {
		t.Errorf("the audit log is down: %d %v", status, answer)
	}
	by = audit.Event{}
	if status, _ := g.as("read", "POST", "/admin/reload", ""); status != http.StatusForbidden || by.Actor != "" {
		t.Errorf("with the role read: %d", status)
	}
	none := newOperatedGateway(t, newGateway(t, nil), func(*rest.AdminConfig) {})
	if status, answer := none.as("operate", "POST", "/admin/reload", ""); status != http.StatusUnprocessableEntity || answer["reason"] != "unsupported_option" {
		t.Errorf("a program that cannot: %d %v", status, answer)
	}
}
