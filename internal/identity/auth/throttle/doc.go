// Package throttle limits attempts to log in and refreshes. docs/identity.md describes the
// limits.
//
// An attempt is charged before its password is checked, and refunded if it was correct or could not
// be checked. Checks that run at the same time therefore cannot exceed a limit together. The nodes
// of an installation share limits by [Shared]; while that fails, each node uses half of its own.
//
// # Concurrency
//
// A Limiter is safe for concurrent use. It has one mutex, which is held for operations on maps
// only: never during a call to the shared limits. Attempts that wait for others hold no lock.
package throttle
