// Package local is the built-in user base: users, groups and accounts in tables of a
// SQLite or PostgreSQL database, passwords as argon2id.
//
// A Base is a broker.Users and a broker.Accounts, and has what the command line
// needs to manage them. It works on connections that it is given and keeps its
// tables beside what else is in that database.
//
// # Rights
//
// A user has scopes, entitlements and limits of its own, and those of each group it is in. What comes out is the union: all
// scopes, all entitlements, and of each limit the largest. That is what broker.User holds; nobody outside
// knows of groups. A change of rights ends no login: whoever watches reads the users anew and applies it.
//
// Each change is one transaction, with its event of the audit log in it, so that there is neither a change that the log does not
// know nor the other way round.
//
// # Passwords
//
// Package password checks them, in a bounded number of slots. An unknown user costs a hash too, so that the
// answer's time does not tell who exists. A hash of an older scheme or cost, as imports bring them, is replaced at the
// next right login, unless another password was set meanwhile.
//
// A new password has at least Config.MinPassword characters, ten unless told otherwise, and is none that everybody
// tries. There are no rules of composition and nothing expires.
//
// # Second factor
//
// A user may need a one-time password of RFC 6238 beside the password, or one of ten recovery codes. It is looked at after the
// password's hash was computed and found right. Each is good once: the database notes the step in the same
// statement that checks it, so that of many at the same moment one gets in. Secrets are encrypted with AES-256-GCM under
// a key derived from Config.Secret, for one user each; recovery codes are hashed. A copy of the database gives nobody a
// second factor.
//
// # Concurrency
//
// A Base is safe for concurrent use. It starts no goroutine; Watch runs on its
// caller's. Another process may change the same tables: Watch tells.
package local
