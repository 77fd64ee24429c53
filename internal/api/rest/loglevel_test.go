package rest_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/api/rest"
	"github.com/ruedahq/rueda/internal/base/audit"
)

// newOperatedGateway returns the administrator's handler of a gateway, with operators of the roles
// read and operate.
func newOperatedGateway(t *testing.T, of *gateway, change func(*rest.AdminConfig)) *identityGateway {
	t.Helper()
	g := &identityGateway{T: t, gateway: of}
	var operators []rest.Operator
	for _, role := range []rest.Role{rest.RoleRead, rest.RoleOperate} {
		operators = append(operators, rest.Operator{Name: role.String(), Role: role, Hash: sha256.Sum256([]byte("the token of " + role.String()))})
	}
	c := rest.AdminConfig{
		Auth: g.service, Operators: func() []rest.Operator { return operators }, Logger: g.logger(),
		Record: func(_ context.Context, events ...audit.Event) error {
			if g.broken == nil {
				g.events = append(g.events, events...)
			}
			return g.broken
		},
	}
	change(&c)
	var err error
	if g.admin, err = rest.NewAdmin(c); err != nil {
		t.Fatal(err)
	}
	g.admin = described(t, "/admin/openapi.json", g.admin)
	return g
}

// newLogGateway returns the administrator's handler of a gateway whose log has a level.
func newLogGateway(t *testing.T, level *slog.LevelVar, log *slog.Logger) *identityGateway {
	t.Helper()
	return newOperatedGateway(t, newGateway(t, nil), func(c *rest.AdminConfig) { c.LogLevel, c.Logger = level, log })
}

// changes returns the rows of the audit log of changes.
func (g *identityGateway) changes() (list []string) {
	for _, e := range g.events {
		list = append(list, fmt.Sprintf("%s %s %s %s %s", e.Kind, e.Actor, e.Address, e.Client, e.Detail))
	}
	return list
}

// TestLogLevel changes the level of the log while the gateway runs.
func TestLogLevel(t *testing.T) {
	var out bytes.Buffer
	level := new(slog.LevelVar)
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level}))
	g := newLogGateway(t, level, log)
	show := func(want string) {
		t.Helper()
		if status, answer := g.as("read", "GET", "/admin/log-level", ""); status != http.StatusOK || answer["level"] != want {
			t.Errorf("the level: %d %v, want %s", status, answer, want)
		}
	}
	show("info")
	for _, name := range []string{"error", "debug", "debug", "warn", "info"} {
		if status, answer := g.as("operate", "PUT", "/admin/log-level", `{"level":"`+name+`"}`); status != http.StatusOK || answer["level"] != name {
			t.Errorf("set %s: %d %v", name, status, answer)
		}
		show(name)
		out.Reset()
		for _, l := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
			log.Log(t.Context(), l, "line")
		}
		if got, want := strings.Count(out.String(), "msg=line"), map[string]int{"debug": 4, "info": 3, "warn": 2, "error": 1}[name]; got != want {
			t.Errorf("at %s: %d lines of four, want %d", name, got, want)
		}
	}
	const by = "setting_changed administrator (operate) 192.0.2.1 console "
	want := []string{by + "log level error, was info", by + "log level debug, was error", by + "log level warn, was debug", by + "log level info, was warn"}
	if got := g.changes(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the audit log has %q", got)
	}
	level.Set(slog.LevelInfo + 2) // by the program that embeds the gateway
	show("warn")
}

// TestThreat35LogLevelNeedsItsAuditRow checks that an operator without the role cannot make the log
// silent, and that nobody can without a row in the audit log.
func TestThreat35LogLevelNeedsItsAuditRow(t *testing.T) {
	level := new(slog.LevelVar)
	g := newLogGateway(t, level, slog.New(slog.DiscardHandler))
	if status, answer := g.as("read", "PUT", "/admin/log-level", `{"level":"error"}`); status != http.StatusForbidden || level.Level() != slog.LevelInfo {
		t.Errorf("with the role read: %d %v, level %v", status, answer, level)
	}
	g.broken = errDown
	if status, answer := g.as("operate", "PUT", "/admin/log-level", `{"level":"error"}`); status != http.StatusServiceUnavailable || answer["reason"] != "unavailable" ||
		level.Level() != slog.LevelInfo {
		t.Errorf("without an audit log: %d %v, level %v", status, answer, level)
	}
	if got := g.changes(); len(got) != 0 {
		t.Errorf("the audit log has %q", got)
	}
}

// TestLogLevelRefused checks the answers to bodies that are not understood, and those of a gateway
// whose log has a fixed level.
func TestLogLevelRefused(t *testing.T) {
	level := new(slog.LevelVar)
	g := newLogGateway(t, level, nil)
	for body, want := range map[string]string{
		"": "bad_json", "[]": "bad_json", `"debug"`: "bad_json", "{}": "invalid_request", `{"Level":"debug"}`: "invalid_request",
		`{"level":"DEBUG"}`: "bad_field", `{"level":"info+2"}`: "bad_field", `{"level":""}`: "bad_field", `{"level":-4}`: "bad_field", `{"level":null}`: "bad_field",
	} {
		if status, answer := g.as("operate", "PUT", "/admin/log-level", body); status != http.StatusBadRequest || answer["reason"] != want {
			t.Errorf("%s: %d %v, want %s", body, status, answer, want)
		}
	}
	if status, answer := g.as("operate", "PUT", "/admin/log-level?level=debug", `{"level":"debug"}`); status != http.StatusBadRequest {
		t.Errorf("a parameter: %d %v", status, answer)
	}
	if status, answer := g.as("operate", "POST", "/admin/log-level", `{"level":"debug"}`); status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d %v", status, answer)
	}
	if level.Level() != slog.LevelInfo {
		t.Errorf("the level is %v", level)
	}
	g = newLogGateway(t, nil, nil)
	for _, method := range []string{"GET", "PUT"} {
		if status, answer := g.as("operate", method, "/admin/log-level", `{"level":"debug"}`); status != http.StatusUnprocessableEntity || answer["reason"] != "unsupported_option" {
			t.Errorf("%s with a fixed level: %d %v", method, status, answer)
		}
	}
}
