package rest

import (
	"maps"
	"slices"
	"strings"

	"github.com/ruedahq/rueda/internal/api/openapi"
	"github.com/ruedahq/rueda/internal/base/spell"
	"github.com/ruedahq/rueda/wire"
)

const (
	longestPath = 48 // longest unknown path that is compared with known paths, in bytes
	farthest    = 3  // largest number of letters in which a similar path differs
)

// notFound returns the fault for an unknown path, with a hint if a known path is similar. The fault
// does not repeat the path, which may contain anything.
func (h *Handler) notFound(path string) *wire.Fault {
	f := &wire.Fault{Reason: wire.NotFound}
	switch path {
	case "/auth/logout", "/oauth/logout", "/logout":
		f.Hint = h.instead("/auth/revoke", "POST /auth/revoke ends a login")
	case "/auth/login", "/auth/refresh", "/oauth/login", "/login":
		f.Hint = h.instead("/auth/token", "POST /auth/token gives tokens")
	case "/", "/docs":
		f.Hint = h.instead("/openapi.json", "GET /openapi.json describes all routes")
	default:
		if near := h.nearPath(path); near != "" {
			f.Hint = "Did you mean " + near + "?"
		}
	}
	return f
}

// instead returns hint if the handler serves path, and "" otherwise.
func (h *Handler) instead(path, hint string) string {
	if h.routes[path] == nil {
		return ""
	}
	return hint
}

// nearPath returns the most similar path that the handler serves, or "" if none is similar enough.
func (h *Handler) nearPath(path string) (best string) {
	if len(path) > longestPath {
		return ""
	}
	least := farthest + 1
	for _, known := range slices.Sorted(maps.Keys(h.routes)) {
		if off := len(path) - len(known); off >= least || -off >= least || strings.Contains(known, "{") {
			continue
		}
		if n := spell.Distance(strings.ToLower(path), known); n < least {
			best, least = known, n
		}
	}
	return best
}

// noToken returns the fault for a request without a token on a route that needs one.
func (q *request) noToken() *wire.Fault {
	if q.route.Needs == openapi.Operator {
		return &wire.Fault{Reason: wire.InvalidToken, Msg: "The administrator's token is missing",
			Hint: "Send Authorization: Bearer with an operator's token, see docs/operations.md#operators"}
	}
	return &wire.Fault{Reason: wire.InvalidToken, Msg: "Access token missing",
		Hint: "Send Authorization: Bearer with the access_token of POST /auth/token"}
}
