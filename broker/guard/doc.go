// Package guard stands before a user base that is reached over a network, so that the base being slow or down costs
// logins and nothing else.
//
// A Guard bounds a call in time, bounds how many calls are on their way at once, and after some failures stops asking
// for a while. Whatever goes wrong is told as broker.ErrUnavailable, which becomes a 503 and is never
// counted as a failed login. Users and Accounts put one before a broker.Users and a broker.Accounts; Call is for a base
// of which only a part is far away.
//
// # States
//
// A Guard is closed while the base answers. It opens after some failures in a row, or when half of the
// last 32 calls failed; then every call is refused at once. After a few seconds, more or less by chance so that many
// gateways do not come together, it is half open: one call is let through, and its outcome closes or opens it.
//
// Wrong passwords, unknown and disabled users, those whose record cannot be read, and missing second factors are answers, not
// failures. A caller who
// gives up says nothing about the base, unless it was waited for half of the time limit.
//
// # Concurrency
//
// A Guard is safe for concurrent use. Each call has a goroutine, so that a caller gets its answer in
// time though the base ignores its context; the call keeps its place among those on their way until it really returns.
// Close waits for them.
package guard
