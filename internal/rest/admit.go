package rest

import (
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/auth"
	"github.com/ruedahq/rueda/internal/clientaddr"
	"github.com/ruedahq/rueda/internal/web"
	"github.com/ruedahq/rueda/wire"
)

// Requests a minute of one address to routes without a token. Revocation asks the store about tokens of
// anybody; the others are read from memory. Grants are bounded within auth, where it is known which
// attempt was a failure.
const (
	revokesPerMinute = 120
	readsPerMinute   = 600
)

// badBearersPerMinute bounds the access tokens of one address that no key of ours has signed: to find that out costs a
// hundred times what a token does that was seen before. All users of an office may come with old ones at once, when
// the keys were lost.
const badBearersPerMinute = 600

// letIn lets a request in by what its route asks for.
func (h *Handler) letIn(q *request) error {
	switch q.route.needs {
	case anyone:
	case operator:
		return h.operator(q)
	default:
		return h.admit(q)
	}
	if q.route.limit == 0 {
		return nil
	}
	return q.spend("address", h.addresses.take(q.route.path+" "+clientaddr.Client(q.address).String(), q.route.limit, time.Now()))
}

// spend tells what is left of a rate, and refuses where nothing is.
func (q *request) spend(policy string, s web.Quota) error {
	s.SetHeader(q.out, policy)
	if s.Wait > 0 {
		return &wire.Fault{Reason: wire.RateLimited, RetryAfter: web.Seconds(s.Wait)}
	}
	return nil
}

// admit lets a request in by its token, its user's rate and its route's scope.
func (h *Handler) admit(q *request) error {
	token, err := q.bearer()
	if err != nil {
		return err
	}
	identity, err := h.verify(q, token)
	if err != nil {
		return err
	}
	q.user, q.identity = identity.User, identity
	limit := q.user.Limits.RequestsPerMinute
	if limit <= 0 {
		limit = h.cfg.RequestsPerMinute
	}
	if err := q.spend("user", h.users.take(q.user.ID, limit, time.Now())); err != nil {
		return err
	}
	if q.route.needs == anyUser {
		return nil
	}
	if f := q.needScope(q.route.needs); f != nil {
		return f
	}
	return nil
}

// verify is whom a token stands for. An address that has sent too many bad ones has no new ones looked at for a while;
// those that were good before stay so, its neighbours' too.
func (h *Handler) verify(q *request, token string) (auth.Identity, error) {
	if identity, ok, err := h.cfg.Auth.Known(token); ok {
		return identity, err
	}
	key := "bearer " + clientaddr.Client(q.address).String()
	if s := h.addresses.check(key, badBearersPerMinute, time.Now()); s.Wait > 0 {
		return auth.Identity{}, q.spend("address", s)
	}
	identity, err := h.cfg.Auth.Verify(q.Context(), token)
	if auth.IsReason(err, auth.InvalidToken) {
		h.addresses.take(key, badBearersPerMinute, time.Now())
	}
	return identity, err
}

// bearer is the token of the Authorization header (RFC 6750, section 2.1).
func (q *request) bearer() (string, error) {
	values := q.Header.Values("Authorization")
	if len(values) > 1 { // which of them a proxy in front looked at nobody knows
		return "", wire.NewFault(wire.InvalidRequest, "More than one Authorization header")
	}
	if len(values) == 0 {
		return "", q.noToken()
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimLeft(token, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", q.noToken()
	}
	q.presents = true
	return token, nil
}
