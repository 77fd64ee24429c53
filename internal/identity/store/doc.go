// Package store keeps token families, their tokens and the audit log. SQLite, Postgres and Memory
// implement auth.Store and pass one conformance suite.
//
// # SQLite
//
// Open opens or creates a database file in WAL mode with synchronous FULL: a commit is on disk
// before the call returns, and neither kill -9 nor a power cut loses an answered operation. One
// connection writes, because SQLite allows one writer and waiting in Go is fair. A small pool
// reads. Concurrent operations share a transaction (see groupCommit). OpenInMemory runs the same
// code on a database that ends with the process.
//
// Other tables may be in the same file: Writer and Reader return the connections. Each user of the
// file has its own migrations and version table.
//
// # Audit log
//
// Every change appends its audit row in its own transaction, chained to the row before (package
// audit). Packages with their own tables in the database write rows with AppendAudit, in their
// transactions. UseChain sets the key. A database has one chain for all processes.
//
// # PostgreSQL
//
// OpenPostgres connects to a database that several gateways may share. Postgres also keeps their
// signing keys and shared limits. Concurrent operations share a transaction of three round trips
// (see pgBatch). To avoid deadlocks, every transaction locks families by id, then their tokens,
// then the head of the audit log. Other gateways learn of revocations by NOTIFY, and by polling if
// notifications are lost. Each operation has a limit of two seconds, including the connection.
//
// # Concurrency
//
// All stores are safe for concurrent use and start no goroutines. The pools of database/sql and
// pgxpool have goroutines, which Close ends. Several processes may open one SQLite file.
package store
