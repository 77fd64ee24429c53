// Package guard protects a gateway from a slow or failed user base on the network, which then
// affects logins only.
//
// A Guard limits the time of a call and the number of concurrent calls, and stops calls for a while
// after failures. It reports all of this as broker.ErrUnavailable, which becomes a 503 and is never
// a failed login. Users and Accounts wrap a broker.Users and a broker.Accounts. Call protects
// single operations.
//
// # States
//
// A Guard is closed while the base works. It opens after some failures in a row, or when half of
// the last 32 calls have failed. Then it refuses all calls immediately. After a few seconds, with a
// random share so that many gateways do not retry together, it is half open: one call is allowed,
// and its outcome closes or opens the Guard.
//
// Wrong passwords, unknown and disabled users, unreadable records and missing second factors are
// answers, not failures. A call that its caller cancels counts only if it has taken half of the
// time limit.
//
// # Concurrency
//
// A Guard is safe for concurrent use. Each call has a goroutine, so that its caller gets a result
// in time even if the base ignores its context. The call counts as in flight until it returns.
// Close waits for all calls.
package guard
