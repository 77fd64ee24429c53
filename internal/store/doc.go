// Package store keeps what must outlive the process: token families and their
// tokens. It implements auth.Store three times, as SQLite, Postgres and Memory; one
// conformance suite in its tests says what all must do.
//
// # SQLite
//
// Open makes or opens one database file. It is in WAL mode with synchronous FULL:
// a commit is on the disk before the call returns, and a kill -9 or a power cut
// loses nothing that was answered. There is one writer connection, since SQLite
// has one writer anyway and waiting in Go is fair, and a small pool that reads
// beside it. Operations that come while a commit waits for the disk share the next one: see group. OpenInMemory
// is the same code on a database that ends with the process.
//
// Other tables may live in the same file: Writer and Reader give the connections.
// Each user of the file has migrations and a version table of its own.
//
// # Audit log
//
// Every change has its row of the audit log in its own transaction, chained to the row before (package audit). Who
// keeps tables of their own in the database writes rows with AppendAudit, in their transactions. UseChain gives the
// key; there is one chain for a database, however many processes write.
//
// # PostgreSQL
//
// OpenPostgres connects to a database that several gateways may share, and Postgres keeps their signing keys
// and common limits too. Operations that come at once share a transaction, which takes three trips however
// many they are: see pgBatch. Every transaction takes its locks in one order: families by id, their tokens, and
// last the head of the audit log, so that none waits in a circle. What one gateway revokes is told to the others by
// NOTIFY, with polling behind it. Each operation has two seconds, connecting included.
//
// # Concurrency
//
// All stores are safe for concurrent use and start no goroutine of their own
// (database/sql and pgxpool have theirs for each pool, which Close ends). Several processes may have one SQLite file open.
package store
