// Package rest serves the gateway's REST API over HTTP/1.1: tokens, accounts, market data, health.
// It is the only package that knows HTTP status codes. Package history has the routes for past
// data, sse the stream over HTTP, and api what they share with this package.
//
// # A request
//
// A Handler first refuses what is malformed or dangerous on any route (validate.go), finds the
// route, answers cross-origin pages (cors.go), and checks the method and the accepted media types.
// Then it checks the token, the request rate of the user and the scope of the route (admit.go), and
// calls the route's function. That function returns the data of the answer or an error. It never
// sees the ResponseWriter, so that no answer is incomplete when it fails. Routes and their
// requirements are one table, in routes.go.
//
// Two routes write more than fits in memory: an export and the stream. Their result has a function
// that writes the body in pieces, each with its own time limit. It runs when nothing can be refused
// any more.
//
// # Addresses
//
// Limits, logins and the log use the client's address: that of the connection or, behind the
// proxies of Config.Proxies, the one that package proxy finds in their headers.
//
// A Server limits its connections, of one address and in total (conn_limiter.go). Idle ones are
// closed first.
//
// # The administrator
//
// NewAdmin returns a Handler with other routes, for another listener. They require a token that
// belongs to no user (admin.go). The operator of the token has a role, which its route may require.
// Routes about users are for the gateway's own user base (users.go).
//
// # Answers
//
// Every answer is an envelope, {"success":true,"data":{...}} or {"success":false,"error":{...}},
// except for those of other standards: the key set, and the answers for OAuth libraries (oauth.go).
// The envelope is also used if net/http itself refuses a request (conn.go). An error is a
// wire.Failure; its status follows from its reason by the table in status.go. X-Request-Id is the
// client's own if it is well-formed, and a new one otherwise; errors and the log contain it.
//
// # Secrets
//
// Passwords and tokens are refused in the query. Bodies, headers, queries and paths are never
// logged: the access log has the route. A panic ends its request or connection and is counted. The
// log has its type and stack, but not its value, which may quote the client.
//
// # Concurrency
//
// A Handler is safe for concurrent use and starts no goroutine. Its rate limits and the Server's
// connection limiter have a mutex each, which is held for a few map operations. Server.Run owns the
// goroutine that accepts, and waits for it; the goroutine of a connection belongs to net/http.
package rest
