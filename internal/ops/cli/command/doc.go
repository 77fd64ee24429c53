// Package command has what all subcommands of rueda share: streams, exit statuses, checks of
// arguments, the terminal, the login at a gateway and the configuration.
package command
