// Package rest serves the gateway's REST contract over HTTP/1.1: tokens, accounts,
// market data at rest, health. It is the one place that knows HTTP status codes.
//
// # A request
//
// A Handler first refuses what is malformed or dangerous whatever the route (see
// hygiene.go), finds the route, answers for cross-origin pages, checks the method
// and what the client accepts, then the token, the user's request rate and the
// route's scope, and only then runs the route's function. That function takes
// a request and returns the answer's data or an error; it never sees the
// ResponseWriter, so nothing is half written when it fails. Routes and what each
// needs are one table, in routes.go.
//
// Two routes write more than may lie in memory, and begin when nothing can be refused any more: the
// result they return has a function that writes the body, in pieces each of which has its own time.
//
// # Addresses
//
// A client's address is what limits, sessions and the log know it by: that of the connection or, behind the
// proxies of Config.Proxies, what package proxy makes of their headers. Whether a client came to them by TLS is not asked.
//
// A Server bounds the connections that it serves, of one address and in all (guests.go): idle ones make room.
//
// # The administrator
//
// NewAdmin makes a Handler with routes of its own, for another listener, which a token that is no user's opens
// (admin.go). It takes the same steps; no route is in both tables but those of health.
//
// # History
//
// A page is read from the journal by index, on the request's own goroutine and off the stream's
// shards, and is whole before its first byte is written: a slow client holds up nobody. Few requests
// read at a time (lanes.go), an export likewise while it does not wait for its client. A page has rows of one
// epoch; a cursor names the row that it begins behind and a fingerprint of the question. What lies in
// closed days is told to caches as immutable, once nothing can be late any more.
//
// # The stream over HTTP
//
// GET /market/stream is a client of a session: Config.Connect opens one, the route sends it the
// token and a subscribe (follow.go), and writes its messages as events or lines (events.go). Tokens,
// rights, slow clients and the shutdown are therefore the session's. The id of an event is the
// position that the session reports after each piece of the stream.
//
// # Answers
//
// Every answer but those that other standards describe (the key set, and what OAuth libraries ask for,
// oauth.go) is an envelope, {"success":true,"data":{...}} or
// {"success":false,"error":{...}}, also where net/http itself refuses a request
// before any handler runs (see conn.go). An error is a wire.Failure; its status
// follows from its reason by the table in status.go. X-Request-Id is the client's
// own if it is sane, else made here; it stands in errors and in the log.
//
// # Secrets
//
// Passwords and tokens are refused in the query, and bodies, headers, queries and
// paths are never logged: the access log names the route. A panic ends its request, or its
// connection, and is counted; it is logged by
// type and stack alone, since its value may quote what was sent.
//
// # Concurrency
//
// A Handler is safe for concurrent use and starts no goroutine. Its tables of
// request rates, its lanes, and the Server's guests have a mutex each, held for a few map operations. Server.Run owns
// the goroutine that accepts, and waits for it; the goroutine of each
// connection is net/http's.
package rest
