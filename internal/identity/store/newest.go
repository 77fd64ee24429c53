package store

import (
	"sync"

	"github.com/ruedahq/rueda/internal/base/audit"
)

// newest is the newest row of the audit log that this process has written. A later transaction that
// finds an older row shows that rows were removed.
type newest struct {
	mu      sync.Mutex
	head    audit.Head
	missing audit.Head // zero: nothing was removed
}

// found compares the newest row that a transaction sees. No other transaction may write to the log
// until it ends.
func (n *newest) found(head audit.Head) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if head.Seq < n.head.Seq || head.Seq == n.head.Seq && head != n.head {
		n.missing, n.head = n.head, head
	}
}

// committed records the newest row of a transaction.
func (n *newest) committed(head audit.Head) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if head.Seq > n.head.Seq {
		n.head = head
	}
}

// AuditWritten returns the newest row that this process has written, and one that it had written
// and that a later transaction did not find; zero: there is none.
func (n *newest) AuditWritten() (head, missing audit.Head) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.head, n.missing
}
