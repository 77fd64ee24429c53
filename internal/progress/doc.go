// Package progress shows how far a command is.
//
//	p := progress.New(os.Stderr, isTerminal)
//	stop := p.During(ctx, func() string { return "12 of 90 files" })
//	fmt.Fprintln(p, "said meanwhile")   // does not mix with it
//	stop()
//
// # Concurrency
//
// During starts one goroutine, which has ended when stop returns. All methods are safe for
// concurrent use.
package progress
