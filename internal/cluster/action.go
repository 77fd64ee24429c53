package cluster

// An Action is an output of a Node. The host performs actions in their order. Those that a comment
// calls synchronous are complete before the next action, and before the next event. The others are
// started, and an event reports their result.
type Action interface{ action() }

// Attach replaces the consumer of the stream by one that begins with the message Seq, or with the
// oldest one if that is newer. Messages of the former consumer are not passed any more. The answer
// is Attached, before the first Received. A consumer never begins again by itself: when it fails,
// the host passes Disconnected and Connected.
type Attach struct{ Seq uint64 }

// Append appends a message to the stream, if the newest message of it has the sequence Expected.
// The answer is Appended, with the same Expected. The next Append may come before the answer if the
// message was received meanwhile. The message must not be sent after the answer, or in another
// session.
type Append struct {
	Expected uint64
	Data     []byte
}

// ReadLast reads the newest message of the stream, to find out whether an append with this Expected
// has succeeded. The answer is LastRead, with the same Expected.
type ReadLast struct{ Expected uint64 }

// Save stores the state of the node durably enough to survive a kill of the process (one atomic
// write of a file). Synchronous. If it fails, the node ends, unless Regular is set.
type Save struct {
	State   State
	Regular bool // nothing has changed that the node must not forget: the next one may replace it
}

// Apply passes rows that came back from the stream to the following hub, which writes them to its
// journal and shows them. Synchronous. Its records are read with Records.
type Apply struct {
	Prev, Last uint64 // positions: before the first row, of the newest row
	Time       int64  // the log's clock, Unix ns
	Data       []byte // for Records.Each, until the next event; the host skips rows up to Prev
}

// Stored reports numbers of sources that the log has. Synchronous.
type Stored struct{ Sources []Source }

// BeginEpoch begins an epoch in the following hub and its journal, at a position. Rows of that
// epoch that the node already has are dropped. Clients get a Subscription with msg Epoch.
// Synchronous.
type BeginEpoch struct {
	Epoch    string
	Position uint64
}

// Census asks all nodes to report, by CensusAsked with this node and ID.
type Census struct{ ID uint64 }

// SendReport sends a report: to the node that asked for it, or to all nodes if To is empty.
type SendReport struct {
	To     string
	Report Report
}

// ReadMembers reads the registered nodes from the shared store. The answer is MembersRead.
type ReadMembers struct{}

// Register adds this node to the registered nodes. The answer is Registered. The host tries until
// it succeeds.
type Register struct{}

// Unregister removes a node from the registered nodes, unless it has registered again and so has
// another Number. No answer.
type Unregister struct{ Member Member }

// Fetch asks a node, or all nodes if Node is empty, for rows after a row, up to the position Upto
// or a part of them. The answer is Fetched. A node answers if Node.Serves is true for the request.
type Fetch struct {
	Node  string
	Epoch string
	After RowID
	Upto  uint64
}

// Refill reads the rows of this node's journal after the position After, up to Upto or a part of
// them. The answer is Refilled.
type Refill struct{ After, Upto uint64 }

// WriteLease writes the lease with this node as its holder, or with no holder if Release is set, if
// it has the expected revision. The answer is LeaseWritten, with the same Expected.
type WriteLease struct {
	Expected uint64
	Release  bool
}

// Lead begins the numbering: the host makes a numbering hub from the state of the following hub,
// which is at Position, and offers its rows. With Exact, feeds that Sources lists continue after
// those numbers. All others begin with their next event, and report a gap.
type Lead struct {
	Position uint64
	Epoch    string
	Term     Term
	Sources  []Source
	Exact    bool
}

// StopLeading ends the numbering. The host drops the numbering hub with all rows that it has
// numbered. Synchronous.
type StopLeading struct{ Reason string }

// Show states whether the node may show rows to clients, and whether they are current. Before the
// first Show it may not. While Current is false, its feeds count as down.
type Show struct{ Allowed, Current bool }

// Fail ends the node with an error that an operator has to resolve.
type Fail struct{ Err error }

func (Attach) action()      {}
func (Append) action()      {}
func (ReadLast) action()    {}
func (Save) action()        {}
func (Apply) action()       {}
func (Stored) action()      {}
func (BeginEpoch) action()  {}
func (Census) action()      {}
func (SendReport) action()  {}
func (ReadMembers) action() {}
func (Register) action()    {}
func (Unregister) action()  {}
func (Fetch) action()       {}
func (Refill) action()      {}
func (WriteLease) action()  {}
func (Lead) action()        {}
func (StopLeading) action() {}
func (Show) action()        {}
func (Fail) action()        {}
