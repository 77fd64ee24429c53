// Package progress shows the progress of a command.
//
//	p := progress.New(os.Stderr, isTerminal)
//	stop := p.During(ctx, func() string { return "12 of 90 files" })
//	fmt.Fprintln(p, "a message")   // printed above the progress line
//	stop()
//
// # Concurrency
//
// During starts one goroutine, which has ended when stop returns. All methods are safe for
// concurrent use.
package progress
