// Package audit is the log of what was done to identities: who logged in, what was refused, which
// rights changed. Its rows are chained: each holds a keyed hash of itself and of the row before, so
// that a row that was changed, taken out or put in is found.
//
//	row := chain.Next(head, event)                  // in the transaction that writes it
//	head, err := chain.Verify(start, rows)          // the error names the row
//	fmt.Println(head)                               // SEQ:HASH, to be noted elsewhere
//
// Rows that were taken off the end leave no gap: a head that was noted elsewhere shows it. Old rows are
// pruned from the start, and PrunedEvent tells of that within the chain, since where a chain begins is written
// where a forger could write too.
//
// The package knows events and the chain. Where rows are kept, and that one is written in the transaction
// of what it tells, is the store's affair.
package audit
