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
// # Where things are
//
// A command has the file of its name; those of user begin with user. A configuration is read by package
// config; serve.go has what all commands do with one.
//
//	root.go exit.go args.go    the program, its exit statuses, checks of arguments
//	terminal.go print.go       talk with a person: prompts, colours, lines of a stream
//	login.go                   who logs in at which gateway, by package client
//	follow.go link.go hole.go  a stream that is followed over broken connections, without holes
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
