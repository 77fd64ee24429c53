package rest

import "iter"

// Fields that every answer carries, for browsers: nothing here is a page, and nothing here is to be guessed at, framed
// or taken into another site's process. The stream's refusals and what net/http answers by itself carry them too.
const (
	contentPolicy  = "default-src 'none'; frame-ancestors 'none'"
	resourcePolicy = "same-origin"
	secureAlways   = "max-age=31536000" // a year, of this host alone
)

// securityFields are their names and values, over TLS or not. Pages of allowed origins read answers by CORS, which
// is not bound by the resource policy.
func securityFields(secure bool) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		_ = yield("X-Content-Type-Options", "nosniff") &&
			yield("Referrer-Policy", "no-referrer") &&
			yield("Content-Security-Policy", contentPolicy) &&
			yield("Cross-Origin-Resource-Policy", resourcePolicy) &&
			(!secure || yield("Strict-Transport-Security", secureAlways))
	}
}

// secure sets them.
func (q *request) secure() {
	for name, value := range securityFields(q.secured) {
		q.out.Set(name, value)
	}
}
