package cli

import (
	"cmp"
	"context"
	"errors"
	"syscall"
)

// Exit statuses of the program.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2 // command line or configuration
	exitRefused     = 3 // credentials or rights
	exitNotFound    = 4 // instrument or user
	exitUnreachable = 5
	exitWrong       = 8 // data that cannot be true
	exitInterrupted = 130
)

// failure is an error with an exit status and, where there is something to do
// about it, the advice to do that.
type failure struct {
	status int
	err    error
	advice string
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func fail(status int, err error, advice string) error {
	return &failure{status: status, err: err, advice: advice}
}

// exitOf is the exit status for an error that a server answered with.
func exitOf(code int) int {
	return cmp.Or(map[int]int{401: exitRefused, 403: exitRefused, 404: exitNotFound}[code], exitError)
}

// outcome is the exit status of an error and what to tell of it; no text: say nothing.
func outcome(ctx context.Context, err error) (status int, text, advice string) {
	var f *failure
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE):
		return exitOK, "", "" // whoever reads has seen enough
	case errors.As(err, &f):
		return f.status, err.Error(), f.advice
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return exitInterrupted, "", ""
	}
	return exitError, err.Error(), ""
}
