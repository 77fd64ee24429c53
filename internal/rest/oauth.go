package rest

import (
	"crypto/sha256"
	"net/http"
	"strconv"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/auth"
	"github.com/ruedahq/rueda/wire"
)

// oauthToken is POST /oauth/token: the grants of /auth/token for libraries that speak RFC 6749. There are no
// clients to be told apart, so that a client_id, a client_secret and Basic credentials are passed over.
func (h *Handler) oauthToken(q *request) (result, error) {
	body, err := q.readBody(mediaForm, maxTokenBody)
	if err != nil {
		return result{}, err
	}
	request, f := wire.ReadTokenForm(body)
	if f != nil {
		return result{}, f
	}
	data, err := h.grant(q, &request)
	if err != nil {
		return result{}, err
	}
	q.out.Set("Pragma", "no-cache") // RFC 6749, section 5.1
	return result{status: http.StatusOK, raw: append(data.Append(nil), '\n')}, nil
}

// oauthRevoke is POST /oauth/revoke (RFC 7009). Clients pass over the body of the answer, but some want it to be JSON.
func (h *Handler) oauthRevoke(q *request) (result, error) {
	body, err := q.readBody(mediaForm, maxTokenBody)
	if err != nil {
		return result{}, err
	}
	token, f := wire.ReadTokenParameter(body)
	if f != nil {
		return result{}, f
	}
	if err := h.cfg.Auth.Revoke(q.Context(), auth.NewSecret(token), q.origin()); err != nil {
		return result{}, err
	}
	return result{status: http.StatusOK, raw: []byte("{}\n")}, nil
}

// failedGrant is the answer of a failure in the form of RFC 6749.
func (q *request) failedGrant(code int, told *wire.Failure) answer {
	word, code := told.Reason.GrantError(code)
	if code != http.StatusUnauthorized {
		q.out.Del("WWW-Authenticate")
	}
	q.out.Set("Pragma", "no-cache")
	return answer{status: code, reason: told.Reason, body: wire.AppendGrantError(nil, word, &told.Fault, q.id)}
}

// metadata is GET /.well-known/oauth-authorization-server (RFC 8414). Its URLs are the operator's: what a request
// calls the host is anybody's text, and caches would give it to others. The issuer is that URL too, since section 3.3
// has clients compare it with where they found it.
func (h *Handler) metadata(q *request) (result, error) {
	url := ""
	if h.cfg.PublicURL != nil {
		url = h.cfg.PublicURL()
	}
	if url == "" {
		return result{}, &wire.Fault{Reason: wire.NotFound, Msg: "The gateway was not told its public URL"}
	}
	m := wire.Metadata{URL: url, Scopes: []string{
		broker.ScopeAccounts, broker.ScopeRead, broker.ScopeDepth, broker.ScopeWildcard, broker.ScopeHistory, broker.ScopeAdmin,
	}}
	body := m.Append(nil)
	sum := sha256.Sum256(body)
	q.out.Set("Cache-Control", "public, max-age="+strconv.Itoa(int(metadataAge/time.Second)))
	return q.tagged(entityTag(sum[:]), result{status: http.StatusOK, raw: body}), nil
}

// metadataAge is how long caches may keep what only a new configuration changes.
const metadataAge = time.Hour
