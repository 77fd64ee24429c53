// Package operation has the commands for a running gateway: status, doctor, log-level, connections,
// reload and operator. They send requests to the listener for administrators, with the token of an
// operator.
package operation
