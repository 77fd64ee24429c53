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
// # Answers
//
// Every answer but the key set is an envelope, {"success":true,"data":{...}} or
// {"success":false,"error":{...}}, also where net/http itself refuses a request
// before any handler runs (see conn.go). An error is a wire.Failure; its status
// follows from its reason by the table in status.go. X-Request-Id is the client's
// own if it is sane, else made here; it stands in errors and in the log.
//
// # Secrets
//
// Passwords and tokens are refused in the query, and bodies, headers, queries and
// paths are never logged: the access log names the route. A panic is logged by
// type and stack alone, since its value may quote what was sent.
//
// # Concurrency
//
// A Handler is safe for concurrent use and starts no goroutine. Its tables of
// request rates have a mutex each, held for a few map operations. Server.Run owns
// the goroutine that accepts, and waits for it; the goroutine of each
// connection is net/http's.
package rest
