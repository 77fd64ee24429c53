// Package local is the built-in user base: users, groups and accounts in tables of an SQLite or
// PostgreSQL database, with argon2id passwords.
//
// A Base implements broker.Users and broker.Accounts, and the operations of the command line. It
// uses given connections, and its tables may share a database with others.
//
// # Rights
//
// A user has its own scopes, entitlements and limits and those of its groups. The result is the
// union: all scopes, all entitlements, and the largest of each limit. broker.User contains it;
// groups are not visible outside. A change of rights ends no login: watchers read the users again
// and apply it.
//
// Each change and its audit event are one transaction, so that neither exists without the other.
//
// # Passwords
//
// Package password checks passwords in a bounded number of slots. An unknown user costs a hash too,
// so that response times do not reveal users. Hashes of an older scheme or cost, such as imported
// ones, are replaced at the next login, unless the password has changed meanwhile.
//
// A new password has at least Config.MinPassword characters, is not a common one, has more than the
// words of Config.Words, and is not in the file Config.Breached. There are no rules of composition,
// and passwords do not expire.
//
// # Second factor
//
// A user may need a one-time password (RFC 6238), or one of ten recovery codes, in addition to the
// password. It is checked after the password was found right. Each can be used once: one statement
// checks and marks it, so that only one of several concurrent logins succeeds. Secrets are
// encrypted with AES-256-GCM under a key derived from Config.Secret, bound to their user; recovery
// codes are hashed. A copy of the database contains no usable second factor.
//
// A group may require a second factor. A member without one gets broker.ErrEnrolmentRequired at a
// login, and earlier logins end. Such a user can enrol one, and nothing else.
//
// # Concurrency
//
// A Base is safe for concurrent use. It starts no goroutine; Watch runs on its caller's. Other
// processes may change the same tables; Watch detects that.
package local
