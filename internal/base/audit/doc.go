// Package audit defines the log of logins, refusals, and changes of identities and rights. Its rows
// form a chain: each has a keyed hash of itself and of the row before, so that changed, removed and
// inserted rows are detected.
//
//	row := chain.Next(head, event)                  // in the transaction that writes it
//	head, err := chain.Verify(start, rows)          // the error names the row
//	fmt.Println(head)                               // SEQ:HASH, to be noted elsewhere
//
// Removing rows from the end leaves no gap, but a head that was stored elsewhere detects it. Old
// rows are pruned from the start. PrunedEvent records that in the chain, because an attacker could
// change the stored start.
//
// The package defines events and the chain. The store keeps the rows, and writes each in the
// transaction of its change.
package audit
