// Package operation has the commands for a running gateway: status, doctor, log-level, connections
// and reload. They send requests to the listener for administrators, with the token of an operator.
package operation
