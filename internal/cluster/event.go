package cluster

// An Event is an input of a Node. The host passes events in the order in which they happened.
type Event interface{ event() }

// Connected reports a new connection to the log. It begins a session. The host passes nothing that
// an earlier session received or started, and cancels its appends that were not sent.
type Connected struct{}

// Disconnected reports the end of the connection to the log. Its session ends, and with it the
// leadership of this node.
type Disconnected struct{}

// Attached answers the action Attach: messages will be received. First and Last are the sequences
// of the oldest and the newest message of the stream, read after the consumer was made. Last is 0
// for a stream without any message, and Last+1 == First for one whose messages were all removed.
type Attached struct{ First, Last uint64 }

// Received is a message of the stream. The node keeps Data until it has applied its rows.
type Received struct {
	Seq  uint64
	Data []byte
}

// Appended answers the action Append. The message may arrive as Received earlier, and then
// acknowledges the append. JetStream sends no answer if the leader of the stream changes meanwhile:
// the host then passes AppendUnknown after its time limit.
type Appended struct {
	Result   AppendResult
	Expected uint64 // of the action
	Seq      uint64 // of the message, for AppendDone
}

// AppendResult is the outcome of an append.
type AppendResult uint8

// Outcomes of an append.
const (
	AppendDone    AppendResult = iota // the stream has the message at Appended.Seq
	AppendRefused                     // the newest message was not the expected one
	AppendUnknown                     // no answer within the host's time limit
)

// LastRead answers the action ReadLast with the newest message of the stream. Seq is 0 if the
// stream never had a message. Data is nil if it has none now. Failed reports that it could not be
// read.
type LastRead struct {
	Expected uint64 // of the action
	Seq      uint64
	Data     []byte
	Failed   bool
}

// LeaseRead is the lease in the key-value store, when it was read or has changed. A missing lease
// has an empty Holder, and the revision with which a write creates it. Checked states that it was
// read because a write has failed. An older revision then means that the store has lost newer ones.
type LeaseRead struct {
	Revision uint64
	Holder   string
	Checked  bool
}

// LeaseWritten answers the action WriteLease. Done is false if the lease has another revision than
// the expected one, or if the store did not answer in time. In the second case the write may have
// succeeded; a LeaseRead with the name of this node shows it.
type LeaseWritten struct {
	Expected uint64 // of the action
	Done     bool
	Revision uint64 // the new one
}

// MembersRead answers the action ReadMembers: the registered nodes, from the shared store.
type MembersRead struct {
	List   []Member
	Failed bool
}

// Registered answers the action Register: the shared store lists this node, with a Number that is
// greater than at every earlier registration of its name. New reports that the store did not list
// it before: it has shown no rows, or it was retired.
type Registered struct {
	Number uint64
	New    bool
}

// CensusAsked is the request of a node to report. The host passes it when all messages that it
// received earlier have been handled.
type CensusAsked struct {
	From string
	ID   uint64
}

// Reported is a report of another node: the answer to a census, or one that it sends regularly.
type Reported struct{ Report Report }

// Fetched answers the action Fetch: consecutive rows after Fetch.After from the journal of another
// node, and the report of that node when it sent them. Failed reports that no node had the rows.
type Fetched struct {
	From   Report
	Groups []Group
	Failed bool
}

// Refilled answers the action Refill with rows from this node's journal: all of them, or the first
// ones. Failed reports that the journal does not have them.
type Refilled struct {
	Groups []Group
	Failed bool
}

// Offered is a group of rows that the numbering hub has numbered since the action Lead, in their
// order.
type Offered struct{ Group Group }

// Resigned asks the node to end its leadership, because the process stops or because numbering has
// failed.
type Resigned struct{}

// Tick reports that time has passed. The host passes it at Node.Deadline.
type Tick struct{}

func (Connected) event()    {}
func (Disconnected) event() {}
func (Attached) event()     {}
func (Received) event()     {}
func (Appended) event()     {}
func (LastRead) event()     {}
func (LeaseRead) event()    {}
func (LeaseWritten) event() {}
func (MembersRead) event()  {}
func (Registered) event()   {}
func (CensusAsked) event()  {}
func (Reported) event()     {}
func (Fetched) event()      {}
func (Refilled) event()     {}
func (Offered) event()      {}
func (Resigned) event()     {}
func (Tick) event()         {}
