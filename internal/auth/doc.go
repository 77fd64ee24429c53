// Package auth says who a client is: it takes passwords and refresh tokens, gives
// out access tokens, checks them, and ends them.
//
// # Access tokens
//
// An access token is a JWT in the shape of RFC 9068, signed by the one key of the
// keyset that signs. It names the user (sub), the login it descends from (sid,
// the token family) and the user's version (ver). It holds no right, no account
// and no name: those are looked up where they are used, so that they can be taken
// away. Verify accepts exactly what Service itself mints and nothing more; the
// list of checks is in access.go.
//
// # Refresh tokens
//
// A login starts a family. Each refresh answers with the presented token's one
// successor, derived from it by HMAC, so that asking twice gives the same answer
// and a family never branches. The presented token lives on until the successor
// is first used; presented again more than a grace period after its death, it is
// taken as stolen and the family ends. Rotation.Decide is that rule, whole; a
// Store applies it within one transaction. A Store holds hashes only: neither it
// nor the key file is enough to make a token.
//
// # What goes on without a database
//
// Verify needs the user base only for a user it has not seen, and never the Store.
// While the user base is down, the users it has seen stay as they were last read.
// Logins and refreshes answer Unavailable. One user whose record cannot be read (broker.ErrBadUser) is no outage: that user
// stays as last read for five minutes, and then tokens and sockets are over.
//
// # Guessing
//
// An attempt at a password is charged to its account, its address and what that lies in before the password is
// looked at, and given back if it was right or could not be checked: docs/throttling.md tells which limits there are.
// Nodes of one installation share limits by Config.Shared, and go on with half of their own while that fails.
//
// A refused login is in the audit log before it is answered. Refusals that cost their sender nothing are written down
// once a minute for each account, address or family.
//
// # Several processes
//
// Processes that have one Store are one installation. What one revokes the others hear by Store.Watch, and read again
// after it failed; a family that one refreshes has its sockets' deadlines moved at the others by Run, in time.
//
// # Concurrency
//
// A Service is safe for concurrent use. Run has two goroutines beside its caller's, which watch the Store, and one more, which
// reads users with open sockets again where nobody tells of changes; who reads many users has up to eight for that. All
// are waited for; everything else happens in the calls. The token cache has one mutex; the users and the
// revocations are spread over shards with a mutex each, because some work looks at all of them. All are held for map
// operations only: never during a call to the Store, the user base, shared limits or a hook, and
// no two at a time. Attempts that wait for the outcome of others hold none. Hooks of Config are called on the goroutine
// of the request or of Run that caused them, after the change is durable, and must not block. OnRevokeUser and OnRights are
// called under one more mutex, of a shard of the users, which is taken before that of their memory and for nothing
// else, so that they come in the order in which a user was read: they must not call the Service.
package auth
