package rest

import (
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/api/openapi"
	"github.com/ruedahq/rueda/internal/base/clientaddr"
	"github.com/ruedahq/rueda/internal/engine/web"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/wire"
)

// unknownPerMinute limits how many requests one address may make for paths that do not exist.
const unknownPerMinute = 600

// badTokensPerMinute limits invalid access tokens, because checking a signature costs a hundred
// times as much as checking a known token. Tokens with the right MAC count by login, and all others
// by address. After a loss of the keys, all users of an office may send old tokens at once.
const badTokensPerMinute = 600

// authorize checks the token, the limits and the scope that the route requires.
func (h *Handler) authorize(q *request) error {
	switch q.route.Needs {
	case openapi.Anyone:
	case openapi.Operator:
		return h.operator(q)
	default:
		return h.authorizeUser(q)
	}
	if q.route.Limit == 0 || q.route.ByToken { // the token is in the body
		return nil
	}
	return h.spendLimit(q, clientaddr.Client(q.Address).String())
}

// spendLimit charges a request to the limit of its route, which requires no token. key is the
// client's address, or another value that the route counts by.
func (h *Handler) spendLimit(q *request, key string) error {
	return q.spend("address", h.addresses.take(q.route.Operation.Path+" "+key, q.route.Limit, time.Now()))
}

// authorizeUser checks the token of a request, the networks and the rate of its user, and the scope
// of its route. It sets the identity of the request.
func (h *Handler) authorizeUser(q *request) error {
	err := q.readToken()
	if err != nil {
		return err
	}
	if q.identity, err = h.verify(q); err != nil {
		return err
	}
	q.User = q.identity.User
	if err := q.checkAddress(h.cfg.Auth); err != nil {
		return err
	}
	q.Recheck = func() error { return q.recheck(h.cfg.Auth) }
	limit := q.User.Limits.RequestsPerMinute
	if limit <= 0 {
		limit = int(h.perMinute.Load())
	}
	if err := q.spend("user", h.users.take(q.User.ID, limit, time.Now())); err != nil {
		return err
	}
	if q.route.Needs == openapi.AnyUser {
		return nil
	}
	if f := q.NeedScope(q.route.Needs); f != nil {
		return f
	}
	return nil
}

// checkAddress returns an error if the user has networks and the client's address is in none of
// them.
func (q *request) checkAddress(s *auth.Service) error {
	return auth.CheckAddress(q.Context(), s, q.User.ID, q.identity.Family, q.User.Networks, q.origin())
}

// recheck verifies the token of a long answer again, and updates the user. It accepts a token that
// has expired since the request began, and keeps the known user while the user base does not
// answer.
func (q *request) recheck(s *auth.Service) error {
	identity, err := s.Verify(q.Context(), q.Token)
	switch {
	case auth.IsReason(err, auth.TokenExpired), auth.IsReason(err, auth.Unavailable):
		return nil
	case err != nil:
		return err
	}
	q.User = identity.User
	return q.checkAddress(s)
}

// readToken stores the token of the Authorization header (RFC 6750, section 2.1) in the request. It
// returns a fault if there is no Bearer token or more than one Authorization header.
func (q *request) readToken() error {
	values := q.Header.Values("Authorization")
	if len(values) > 1 { // it is not known which of them a proxy has checked
		return wire.NewFault(wire.InvalidRequest, "More than one Authorization header")
	}
	if len(values) == 0 {
		return q.noToken()
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimLeft(token, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return q.noToken()
	}
	q.presents, q.Token = true, token
	return nil
}

// verify returns the identity of the request's token. It answers for known tokens at once. It
// refuses other tokens without a check while their key has sent too many invalid ones; the key is
// the login of a token that this installation minted, and otherwise the address.
func (h *Handler) verify(q *request) (auth.Identity, error) {
	if identity, ok, err := h.cfg.Auth.Known(q.Token); ok {
		return identity, err
	}
	key := "bearer " + h.cfg.Auth.LimitKey(auth.NewSecret(q.Token), q.origin())
	if s := h.addresses.check(key, badTokensPerMinute, time.Now()); s.Wait > 0 {
		return auth.Identity{}, q.spend("address", s)
	}
	identity, err := h.cfg.Auth.Verify(q.Context(), q.Token)
	if auth.IsReason(err, auth.InvalidToken) {
		h.addresses.take(key, badTokensPerMinute, time.Now())
	}
	return identity, err
}

// spend sets the headers of a rate limit, and returns a fault if the limit is exhausted. policy is
// the name of the limit in the headers.
func (q *request) spend(policy string, s web.Quota) error {
	s.SetHeader(q.Out, policy)
	if s.Wait > 0 {
		return &wire.Fault{Reason: wire.RateLimited, RetryAfter: web.Seconds(s.Wait)}
	}
	return nil
}
