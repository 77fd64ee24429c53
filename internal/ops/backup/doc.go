// Package backup copies the durable state of a gateway into a folder while the gateway runs, and
// restores it.
//
// # Content
//
//	manifest.json    version, time, installation, position; size and SHA-256 of each file
//	rueda.db         users, logins, audit log and usage; not with PostgreSQL
//	keys.json        the keys, encrypted as they were
//	journal/DAY/...  closed days, and the newest one up to a committed row
//
// Create copies the database first, then the keys, then the journal. Everything that a client was
// answered before Create was called is in the backup, and each login has its keys. The folder gets
// its name when it is complete and synced.
//
// # Restoring
//
// Restore checks all files, then writes them next to the current ones, opens the new database, and
// exchanges the files at the end. The previous files stay in a folder. After an interruption the
// gateway does not start, and the same command completes the restore. The journal has no state
// file, so the next start begins a new epoch, and no number is assigned twice in one.
//
// # Concurrency
//
// The package starts no goroutines.
package backup
