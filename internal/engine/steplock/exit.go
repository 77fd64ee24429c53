package steplock

import (
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
)

// ExitPanic is the exit status of a process that Exit ends. It is the same as for any panic.
const ExitPanic = 2

// Exit ends the process after a panic of the holder of a Mutex. What the mutex guards is then in an
// uncertain state. Exit logs the panic and its stack.
func Exit(log *slog.Logger, p any) {
	stack := debug.Stack()
	log.Error("the hub panicked: the process ends", slog.Any("error", p), slog.String("stack", string(stack)))
	// The runtime prints a panic in the same way. This is needed where logs are discarded.
	_, _ = fmt.Fprintf(os.Stderr, "panic: %v\n\n%s", p, stack)
	os.Exit(ExitPanic)
}
