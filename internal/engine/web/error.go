// Package web holds what REST and the handshake of the stream share of HTTP: error answers and
// their headers, rate limits, request ids, origins of pages, and the address of the peer.
package web

import (
	"fmt"
	"iter"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/ruedahq/rueda/wire"
)

// Error is an error answer.
type Error struct {
	wire.Failure
	Status int
	Header http.Header // besides those of every error; may be nil
}

// NewError returns an error answer with pairs of a header's name and value.
func NewError(status int, reason wire.Reason, msg string, header ...string) *Error {
	e := &Error{Status: status, Failure: wire.Failure{Fault: wire.Fault{Reason: reason, Msg: msg}}, Header: http.Header{}}
	for i := 0; i+1 < len(header); i += 2 {
		e.Header.Set(header[i], header[i+1])
	}
	return e
}

// fields yields the header of the answer to the request with an id.
func (e *Error) fields(id string, https HTTPS) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		if !yield("Cache-Control", "no-store") || !yield("Content-Type", "application/json") || !yield("X-Request-Id", id) {
			return
		}
		for name, value := range SecurityHeader(https) {
			if !yield(name, value) {
				return
			}
		}
		for name, values := range e.Header {
			if !yield(name, values[0]) {
				return
			}
		}
	}
}

// Write answers the request with an id.
func (e *Error) Write(w http.ResponseWriter, id string, https HTTPS) {
	for name, value := range e.fields(id, https) {
		w.Header().Set(name, value)
	}
	w.WriteHeader(e.Status)
	_, _ = w.Write(wire.AppendFailure(nil, e.Status, &e.Failure, id)) // the client may be gone
}

// Append appends the answer in HTTP/1.1, for a connection that ends with it.
func (e *Error) Append(b []byte, id string, https HTTPS) []byte {
	body := wire.AppendFailure(nil, e.Status, &e.Failure, id)
	b = fmt.Appendf(b, "HTTP/1.1 %d %s\r\nConnection: close\r\nContent-Length: %d\r\n", e.Status, http.StatusText(e.Status), len(body))
	for name, value := range e.fields(id, https) {
		b = fmt.Appendf(b, "%s: %s\r\n", name, value)
	}
	return append(append(b, "\r\n"...), body...)
}

// HTTPS says whether browsers reach a gateway by HTTPS, directly or through a proxy, and what its
// answers say about that.
type HTTPS uint8

// Values of HTTPS.
const (
	NoHTTPS         HTTPS = iota
	HostHTTPS             // for a year, browsers use no HTTP with this host
	SubdomainsHTTPS       // the same with its subdomains
)

// SecurityHeader yields the fields of every answer that concern browsers: no answer is a page that
// another site may sniff, frame or load. Pages of allowed origins read answers by CORS, to which
// the resource policy does not apply.
func SecurityHeader(https HTTPS) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		_ = yield("X-Content-Type-Options", "nosniff") &&
			yield("Referrer-Policy", "no-referrer") &&
			yield("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'") &&
			yield("Cross-Origin-Resource-Policy", "same-origin") &&
			(https != HostHTTPS || yield("Strict-Transport-Security", "max-age=31536000")) &&
			(https != SubdomainsHTTPS || yield("Strict-Transport-Security", "max-age=31536000; includeSubDomains"))
	}
}

// Quota is the state of a rate limit at a request.
type Quota struct {
	Limit     int           // requests per window
	Window    time.Duration // in which all of them become available again
	Remaining int           // after this request
	Reset     time.Duration // until all of them are available
	Wait      time.Duration // until one is; 0: this request may proceed
}

// SetHeader sets the fields of draft-ietf-httpapi-ratelimit-headers, and the older ones.
func (q *Quota) SetHeader(h http.Header, policy string) {
	reset := Seconds(q.Reset)
	h.Set("RateLimit-Policy", fmt.Sprintf(`"%s";q=%d;w=%d`, policy, q.Limit, Seconds(q.Window)))
	h.Set("RateLimit", fmt.Sprintf(`"%s";r=%d;t=%d`, policy, q.Remaining, reset))
	h.Set("X-RateLimit-Limit", strconv.Itoa(q.Limit))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(q.Remaining))
	h.Set("X-RateLimit-Reset", strconv.Itoa(reset))
}

// Seconds rounds up, so that a client that waits that long does not return too early.
func Seconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }
