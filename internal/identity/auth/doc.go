// Package auth authenticates clients. It checks passwords and refresh tokens, issues access tokens,
// verifies them, and revokes them.
//
// # Access tokens
//
// An access token is a JWT as in RFC 9068, signed by the signing key of the keyset. It names the
// user (sub), the token family of the login (sid) and the version of the user (ver). It contains no
// rights, accounts or names. Those are looked up when they are needed, so that they can be
// withdrawn. Verify accepts exactly what Service itself signs. The list of checks is in access.go.
//
// # Refresh tokens
//
// A login starts a family. Each refresh returns another successor of the presented token, so a
// client that did not receive an answer can repeat the refresh. The presented token stays valid
// until one of its successors is first used. That successor continues the family; the presented
// token and its other successors are then dead. If a dead token is presented, it counts as stolen
// and the family ends. The exception is an accident, within a grace period and from the network
// that used the family last. Rotation.Apply is this rule, and a Store applies it within one
// transaction. A Store has hashes only, and a successor has a row from its first use on. Neither
// the Store nor the key file alone is enough to make a refresh token.
//
// # Without a database
//
// Verify needs the user base only for an unknown user, and never needs the Store. While the user
// base is down, known users keep the state that was last read. Logins and refreshes answer
// Unavailable. If the record of one user cannot be read (broker.ErrBadUser), that user keeps the
// last state for five minutes. Then the tokens and sockets of the user end.
//
// # Password guessing
//
// An attempt is charged to its account, its address and the networks of the address before the
// password is checked. It is refunded if the password was correct or could not be checked.
// docs/identity.md describes the limits. Nodes of one installation share limits by Config.Shared,
// and use half of their own while that fails.
//
// A refused login is in the audit log before it is answered. Refusals that cost their sender
// nothing are recorded once a minute for each account, address or family.
//
// # Several processes
//
// Processes with one Store are one installation. Store.Watch reports revocations of other
// processes. After it fails they are read again. Run moves the deadlines of sockets whose family
// another process has refreshed.
//
// # Concurrency
//
// A Service is safe for concurrent use. Run starts four goroutines and waits for them. Two watch
// the Store. One ends logins when accounts end. The last reads users with open sockets again if the
// user base does not report changes. A read of many users has up to eight more goroutines.
// Everything else happens in the calls.
//
// The token cache has one mutex. The users and the revocations are divided into shards with a mutex
// each. Each mutex is held for operations on maps only, and no two at a time. No mutex is held
// during a call to the Store, the user base, the shared limits or a hook, with one exception.
// OnRevokeUser and OnRights run under a mutex of the user's shard, so that they are called in the
// order in which the user was read. They must not call the Service. Hooks of Config run on the
// goroutine of the request or of Run that caused them, after the change is durable, and must not
// block.
package auth
