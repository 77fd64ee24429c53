// Package operation has the commands that look at a running gateway: status and doctor. Both read
// GET /metrics of the listener for administrators, with the token of an operator who may read.
package operation
