package openapi

import (
	"slices"

	"github.com/ruedahq/rueda/internal/api/schema"
)

// headerRow describes a response header.
type headerRow struct {
	name   string
	schema *schema.Schema
}

// headerTable returns all response headers, except for those of HTTP itself: Connection,
// Content-Length, Content-Type, Date and Transfer-Encoding.
func headerTable() []headerRow {
	row := func(name, description, example string) headerRow {
		return headerRow{name, schema.String(description).Example(example)}
	}
	number := func(name, description string) headerRow {
		return headerRow{name, schema.Integer(description).AtLeast(0)}
	}
	return []headerRow{
		row("X-Request-Id", "That of the request, if it has 1 to 64 letters, digits, dots, dashes and underscores; otherwise a new one.", "req-1"),
		row("Cache-Control", "Whether and how long caches may keep the answer.", "no-store"),
		row("Vary", "Headers of the request that the answer depends on.", "Origin"),
		row("X-Content-Type-Options", "No answer may be sniffed.", "nosniff"),
		row("Referrer-Policy", "No referrer is sent.", "no-referrer"),
		row("Content-Security-Policy", "Nothing is loaded and nothing is run.", "default-src 'none'; frame-ancestors 'none'"),
		row("Cross-Origin-Resource-Policy", "Other sites cannot embed the answer.", "same-origin"),
		row("Strict-Transport-Security", "Only with TLS, or if public_url is https.", "max-age=31536000"),
		row("Access-Control-Allow-Origin", "The origin of the request, if it is allowed.", "https://app.example.com"),
		row("Access-Control-Expose-Headers", "Headers that pages of that origin may read.", "X-Request-Id"),
		row("RateLimit-Policy", "Name, quota and window in seconds of the limit.", `"user";q=600;w=60`),
		row("RateLimit", "Requests that are left, and seconds until all are available again.", `"user";r=599;t=1`),
		number("X-RateLimit-Limit", "Requests of a window."),
		number("X-RateLimit-Remaining", "Requests that are left."),
		number("X-RateLimit-Reset", "Seconds until all requests are available again."),
		number("Retry-After", "Seconds after which a retry may succeed."),
		row("WWW-Authenticate", "Bearer, with an error if a token was sent.", `Bearer error="invalid_token"`),
		row("Allow", "Methods of the path.", "GET, HEAD"),
		row("ETag", "Entity tag, for If-None-Match.", `"q7Jm2dQxV0aPz1Ry"`),
		row("Link", "Address of the next page (RFC 8288).", `</market/trades?cursor=aH&instrument=GGAL%7CBYMA%7C24hs>; rel="next"`),
		row("Rueda-Lost", "Rows that are missing in the answer, as JSON. Absent: none.", `[{"from":1043,"to":1060,"reason":"buffer_exceeded"}]`),
		row("Content-Encoding", "zstd or gzip, by Accept-Encoding.", "gzip"),
		row("Content-Disposition", "Name of the file.", `attachment; filename="trades-2026-11-20.parquet"`),
		row("Set-Cookie", "The session of the console.", "__Host-rueda_console=...; Path=/; HttpOnly; Secure; SameSite=Strict"),
		row("Pragma", "For caches of HTTP/1.0.", "no-cache"),
		row("X-Accel-Buffering", "Proxies do not collect the answer.", "no"),
		row("Upgrade", "websocket.", "websocket"),
		row("Sec-WebSocket-Version", "The version that is supported.", "13"),
		row("Sec-WebSocket-Accept", "RFC 6455, section 4.2.2.", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
		row("Sec-WebSocket-Protocol", "The chosen format of messages.", "rueda.v1.json"),
		row("Sec-WebSocket-Extensions", "permessage-deflate, if it was negotiated.", "permessage-deflate"),
	}
}

// commonHeaders returns the names of the headers that the document lists for every answer.
func commonHeaders() []string { return []string{"X-Request-Id", "Cache-Control"} }

// browserHeaders returns the names of the headers that every answer has for browsers. The document
// lists them once and not for each answer, so that generated clients do not contain them many
// times.
func browserHeaders() []string {
	return []string{"X-Content-Type-Options", "Referrer-Policy", "Content-Security-Policy", "Cross-Origin-Resource-Policy",
		"Strict-Transport-Security", "Vary", "Access-Control-Allow-Origin", "Access-Control-Expose-Headers"}
}

// rateHeaders returns the names of the headers that answers have if a rate limit applies to the
// request.
func rateHeaders() []string {
	return []string{"RateLimit-Policy", "RateLimit", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"}
}

// headerComponents returns the definitions of the headers whose names are in used.
func headerComponents(used []string) schema.Map {
	m := schema.Map{}
	for _, h := range headerTable() {
		if slices.Contains(used, h.name) {
			m = m.With(h.name, schema.Map{}.With("description", h.schema.Get("description")).With("schema", h.schema))
		}
	}
	return m
}

// headers returns the headers of an answer, each as a reference to its definition.
func headers(names []string) schema.Map {
	m := schema.Map{}
	for _, h := range headerTable() {
		if slices.Contains(names, h.name) {
			m = m.With(h.name, schema.Map{}.With("$ref", "#/components/headers/"+h.name))
		}
	}
	return m
}
