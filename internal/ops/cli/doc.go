// Package cli is the program rueda. [Main] runs one command line and returns its exit status.
//
// Data goes to standard output, everything else to standard error. A command asks questions only on
// a terminal. Secrets are never arguments, because other users of a machine can read those.
//
// # Packages
//
//	server      serve and dev run a gateway
//	marketdata  watch, record, verify, replay, export, trigger and sim
//	admin       user, group, keys, audit and report work on the database of a gateway
//	maintenance backup and restore
//	command     what they share: streams, exit statuses, arguments, terminal, login, configuration
//
// The root command and version are here, and the tests of whole command lines.
//
// # Exit status
//
// 0 success; 1 an error; 2 wrong usage or configuration; 3 refused (credentials, rights); 4 unknown
// instrument or user; 5 server not reachable; 8 inconsistent data; 130 interrupted.
package cli
