// Package auditlog writes to the audit log what a gateway reports itself, removes old rows and
// verifies the log. Package audit has the events and their hash chain.
//
// # Concurrency
//
// Denials is safe for concurrent use; its Run writes on the goroutine of its caller. Prune blocks
// until its context ends.
package auditlog
