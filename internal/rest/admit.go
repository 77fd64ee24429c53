package rest

import (
	"fmt"
	"strings"
	"time"

	"github.com/ruedahq/rueda/wire"
)

// admit lets a request in by its token, its user's rate and its route's scope.
func (h *Handler) admit(q *request) error {
	token, err := q.bearer()
	if err != nil {
		return err
	}
	identity, err := h.cfg.Auth.Verify(q.Context(), token)
	if err != nil {
		return err
	}
	q.user = identity.User
	limit := q.user.Limits.RequestsPerMinute
	if limit <= 0 {
		limit = h.cfg.RequestsPerMinute
	}
	spent := h.users.take(q.user.ID, limit, time.Now())
	q.tellQuota(spent)
	if spent.wait > 0 {
		return &wire.Fault{Reason: wire.RateLimited, RetryAfter: seconds(spent.wait)}
	}
	if q.route.needs == anyUser {
		return nil
	}
	if f := q.needScope(q.route.needs); f != nil {
		return f
	}
	return nil
}

// bearer is the token of the Authorization header (RFC 6750, section 2.1).
func (q *request) bearer() (string, error) {
	values := q.Header.Values("Authorization")
	if len(values) > 1 {
		return "", wire.NewFault(wire.InvalidRequest, "More than one Authorization header")
	}
	missing := &wire.Fault{Reason: wire.InvalidToken, Msg: "Access token missing",
		Hint: "Send Authorization: Bearer with the access_token of POST /auth/token"}
	if len(values) == 0 {
		return "", missing
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimLeft(token, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", missing
	}
	q.presents = true
	return token, nil
}

// tellQuota says how much of the user's rate is left, in the fields of
// draft-ietf-httpapi-ratelimit-headers and in the older ones.
func (q *request) tellQuota(s quota) {
	reset := seconds(s.reset)
	q.out.Set("RateLimit-Policy", fmt.Sprintf(`"user";q=%d;w=%d`, s.limit, seconds(window)))
	q.out.Set("RateLimit", fmt.Sprintf(`"user";r=%d;t=%d`, s.remaining, reset))
	q.out.Set("X-RateLimit-Limit", fmt.Sprint(s.limit))
	q.out.Set("X-RateLimit-Remaining", fmt.Sprint(s.remaining))
	q.out.Set("X-RateLimit-Reset", fmt.Sprint(reset))
}
