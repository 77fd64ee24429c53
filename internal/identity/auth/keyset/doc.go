// Package keyset has the secrets of a server: keys for access tokens, secrets that derive refresh
// tokens, and the key of the audit log. They are one document in a [Store].
//
// A key is published, signs, verifies only and is deleted. lifecycle.go has these rules, without
// I/O. [Set.Run] applies them by the clock and loads what other processes save. Each change is
// read, edited and saved by compare-and-swap (run.go), and encrypted if the operator configured a
// key (seal.go). The tokens of a revoked key end at once, and Config.OnRevoke names it.
//
// # Concurrency
//
// Requests read a Set through one atomic pointer to an immutable ring and never wait. Loads and
// saves exclude each other by a channel of capacity one, which is held while the store answers. Run
// has one goroutine in addition to that of its caller: it watches the store, and Run waits for it.
// OnRevoke is called while loads and saves are excluded and must not block.
package keyset
