package command

import (
	"cmp"
	"context"
	"errors"
	"syscall"
)

// Exit statuses of the program.
const (
	ExitOK          = 0
	ExitError       = 1
	ExitUsage       = 2 // command line or configuration
	ExitRefused     = 3 // credentials or rights
	ExitNotFound    = 4 // instrument or user
	ExitUnreachable = 5
	ExitBadData     = 8 // inconsistent data
	ExitInterrupted = 130
)

// Failure is an error with an exit status and optional advice for the user.
type Failure struct {
	status int
	err    error
	advice string
}

func (f *Failure) Error() string { return f.err.Error() }
func (f *Failure) Unwrap() error { return f.err }

// Fail returns a *Failure.
func Fail(status int, err error, advice string) error {
	return &Failure{status: status, err: err, advice: advice}
}

// ExitOf returns the exit status for an error code of a server.
func ExitOf(code int) int {
	return cmp.Or(map[int]int{401: ExitRefused, 403: ExitRefused, 404: ExitNotFound}[code], ExitError)
}

// Outcome returns the exit status for an error, with the text and the advice to print. Without a
// text nothing is printed.
func Outcome(ctx context.Context, err error) (status int, text, advice string) {
	var f *Failure
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE):
		return ExitOK, "", "" // the output was closed
	case errors.As(err, &f):
		return f.status, err.Error(), f.advice
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return ExitInterrupted, "", ""
	}
	return ExitError, err.Error(), ""
}
