package rest

import (
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/internal/engine/web"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/wire"
)

// answer is everything that is written for a request, except for the headers, which are in
// Request.Out.
type answer struct {
	status int
	body   []byte
	done   func()      // called when it is written
	reason wire.Reason // of an error

	// stream, if it is set, writes the body instead of body, and returns the length in bytes.
	stream  func(http.ResponseWriter) int64
	written int64
}

// refuse returns the answer for an error. It logs an error of an unexpected type and answers
// with the reason internal.
func (h *Handler) refuse(q *request, err error) answer {
	var (
		failure *wire.Failure
		fault   *wire.Fault
		refused *auth.Error
	)
	switch {
	case errors.Is(err, api.ErrGone):
		fault = &wire.Fault{Reason: wire.Unavailable, RetryAfter: 1}
	case errors.As(err, &failure):
		return q.failed(failure)
	case errors.As(err, &fault):
	case errors.As(err, &refused):
		return q.failed(refusal(refused))
	default:
		h.log.LogAttrs(q.Context(), slog.LevelError, "request failed",
			slog.String("request_id", q.ID), slog.Any("error", err))
		fault = &wire.Fault{Reason: wire.Internal}
	}
	return q.failed(&wire.Failure{Fault: *fault})
}

// refusal converts an error of package auth to a failure, with a hint about what the client should
// do.
func refusal(e *auth.Error) *wire.Failure {
	weak := (*broker.PasswordError)(nil)
	f := &wire.Failure{Fault: wire.Fault{Reason: wire.Reason(e.Reason), RetryAfter: web.Seconds(e.RetryAfter)}}
	switch {
	case e.Reason == auth.MFARequired:
		f.Hint = "Send otp together with the password: six digits, or a recovery code"
	case e.Reason == auth.EnrolmentRequired:
		f.Hint = "Enrol one: POST /auth/otp with the action enrol"
		if auth.PasswordChanged(e) {
			f.Msg = "The password has changed. A second factor must be enrolled before a login"
		}
	case e.Reason == auth.PasswordChangeRequired:
		f.Hint = "Set another password: POST /auth/password"
	case e.Reason == auth.SecondFactorLocked:
		f.Hint = "Set a new password with a recovery code as otp: POST /auth/password, or ask an operator"
	case auth.NeedsPassword(e):
		f.Hint = "Other logins are ended with the password: POST /auth/sessions"
	case errors.Is(e, broker.ErrFactor):
		f.Msg = "A group of the user requires a second factor"
	case e.Reason == auth.InvalidEnrolment:
		f.Hint = "Begin again with the action enrol"
	case errors.As(e, &weak):
		return wire.NewFailure(wire.WeakPassword, "new_password", weak.Problem)
	case errors.Is(e, broker.ErrNoFactor):
		f.Msg = "The user has no second factor"
	case e.Reason == auth.Unsupported:
		f.Msg = "Passwords and second factors of this gateway's users are managed in the broker's user base"
	}
	return f
}

// failed returns the answer for a failure, and sets the headers that belong to its status.
func (q *request) failed(f *wire.Failure) answer {
	sent := *f
	code, msg := statusOf(f.Reason)
	if sent.Msg == "" {
		sent.Msg = msg
	}
	switch code {
	case http.StatusUnauthorized:
		// RFC 6750, section 3.1: no error code if no token was given.
		challenge := "Bearer"
		if q.presents {
			challenge = `Bearer error="invalid_token"`
		}
		q.Out.Set("WWW-Authenticate", challenge)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		q.Out.Set("Retry-After", strconv.Itoa(max(1, sent.RetryAfter)))
	case http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusInternalServerError:
		q.Out.Set("Connection", "close") // the rest of the body may still arrive
	}
	q.Out.Del("ETag")
	q.Out.Set("Cache-Control", "no-store")
	if q.route != nil && q.route.OAuth() {
		return q.failedGrant(code, &sent)
	}
	return answer{status: code, reason: f.Reason, body: wire.AppendFailure(nil, code, &sent, q.ID)}
}

// compress compresses the body of the answer with the coding that the client prefers. It leaves a
// stream alone, which compresses its own body.
func (h *Handler) compress(q *request, a *answer) {
	q.Out.Add("Vary", "Accept-Encoding")
	if a.stream != nil {
		return
	}
	var used string
	a.body, used = h.compressors.Compress(a.body, api.Coding(q.Header.Values("Accept-Encoding")))
	if used == api.CodingNone {
		return
	}
	q.Out.Set("Content-Encoding", used)
	if etag := q.Out.Get("ETag"); etag != "" { // other bytes, another tag
		q.Out.Set("ETag", strings.TrimSuffix(etag, `"`)+"-"+used+`"`)
	}
}

// write sends the answer with the headers that every answer has. https selects those about HTTPS.
func (a *answer) write(w http.ResponseWriter, q *request, https web.HTTPS) {
	set := func(name, value string) {
		if _, ok := q.Out[name]; !ok {
			q.Out.Set(name, value)
		}
	}
	set("Cache-Control", "no-store")
	for name, value := range web.SecurityHeader(https) {
		set(name, value) // pages have a policy of their own
	}
	q.Out.Set("X-Request-Id", q.ID)
	if len(a.body) > 0 {
		set("Content-Type", api.MediaJSON)
		q.Out.Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	w.WriteHeader(a.status)
	if a.stream != nil {
		a.written = a.stream(w)
		return
	}
	a.written = int64(len(a.body))
	// A write(2) of n megabytes may keep a processor in the kernel for n milliseconds.
	_ = api.InPieces(a.body, w.Write) // the client may be gone
}
