// Package cli is the program rueda: its subcommands, their flags and their texts.
// [Main] runs one command line and returns its exit status.
//
//	dev      a gateway with a simulated market, in memory
//	serve    a gateway by a configuration file
//	user     the users of a database
//	watch    a stream, line by line
//	export   a day of the journal as files
//	version  what this is
//
// Data goes to standard output and talk to standard error. Nothing asks a
// question unless a person sits at a terminal, and no secret is ever an argument:
// other users of a machine can read those.
//
// # Configuration
//
// A configuration is TOML. Decoding is strict and tells every mistake at once with file,
// line and key ([decode]); the structs it fills have one field for each key, and the
// files that serve --init writes have a comment for each.
//
// # Exit status
//
// 0 done; 1 an error; 2 wrong usage or configuration; 3 refused (credentials, rights); 4 no such
// instrument or user; 5 server not reachable; 130 interrupted.
//
// # Concurrency
//
// A command runs on the caller's goroutine. Watch has two more for each
// connection, one that reads the socket and one that refreshes the token; both
// have ended when the connection's function returns.
package cli
