package cluster

// State is what a node stores between two runs of its process.
type State struct {
	History   History
	Position  uint64 // of the node's newest row
	Seq       uint64 // sequence of the newest handled message
	ID        ID     // of that message
	Stream    uint64 // position that the stream has reached with it
	Sources   []Source
	SourcesAt uint64 // position at which Sources are exact
	Unsure    bool   // they are exact again when the newest term has rows
	Time      int64  // the log's clock, Unix ns
	Highest   uint64 // greatest number of a term that the node has seen
	Gaps      bool   // rows that the node has shown may be missing
	Unproven  uint64 // the rows up to this position are a copy that the log has not confirmed; 0: none

	Number      uint64 // of the newest registration; 0: none, or the state of an older program
	Registering bool   // another one has begun, and its number is not known
}

// Report states how far a node is. Nodes send it regularly, and when a census asks.
type Report struct {
	Node      string
	Census    uint64 // that it answers; 0: none
	Shows     bool   // it shows rows to clients
	Number    uint64 // of its registration
	Complete  bool   // it has all rows that it has shown
	Short     bool   // it has seen that the stream lost messages
	History   History
	Highest   uint64 // greatest number of a term that it has seen
	Position  uint64
	Seq       uint64 // sequence of the newest message that it has handled
	Sources   []Source
	SourcesAt uint64
	Time      int64  // the log's clock, Unix ns; 0: the node has not heard it since its start
	TimeTerm  uint64 // number of the term in which it was heard
	Seen      int64  // newest time of the log that the node has seen, also before its start
	Wall      int64  // the clock of its machine, Unix ns; 0: of a node that does not state it
}

// rowID returns the RowID of the newest row of the node.
func (r *Report) rowID() RowID { return RowID{r.History.At(r.Position), r.Position} }
