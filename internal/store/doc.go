// Package store keeps what must outlive the process: token families and their
// tokens. It implements auth.Store twice, as SQLite and as Memory; one conformance
// suite in its tests says what both must do.
//
// # SQLite
//
// Open makes or opens one database file. It is in WAL mode with synchronous FULL:
// a commit is on the disk before the call returns, and a kill -9 or a power cut
// loses nothing that was answered. There is one writer connection, since SQLite
// has one writer anyway and waiting in Go is fair, and a small pool that reads
// beside it. OpenInMemory is the same code on a database that ends with the process.
//
// Other tables may live in the same file: Writer and Reader give the connections.
// Each user of the file has migrations and a version table of its own.
//
// # Concurrency
//
// Both stores are safe for concurrent use and start no goroutine of their own
// (database/sql has one for each pool, which Close ends). Several processes may have one SQLite file open.
package store
