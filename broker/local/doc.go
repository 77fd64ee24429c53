// Package local is the built-in user base: users and accounts in tables of a
// SQLite database, passwords as argon2id.
//
// A Base is a broker.Users and a broker.Accounts, and has what the command line
// needs to manage them. It works on connections that it is given and keeps its
// tables beside what else is in that database.
//
// # Passwords
//
// A hash takes 19 MiB and about 20 ms of one core. So many at once as there are
// slots, one fewer than cores, are computed; a bounded queue waits for a bounded
// time, and what does not fit is ErrUnavailable at once. A flood of logins costs
// the flooders their logins and leaves a core to the market. An unknown user costs a hash too, so that the
// answer's time does not tell who exists.
//
// # Concurrency
//
// A Base is safe for concurrent use. It starts no goroutine; Watch runs on its
// caller's. Another process may change the same tables: Watch tells.
package local
