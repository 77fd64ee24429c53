package subscription

// Figures are the counters of a shard. Only its goroutine uses them.
type Figures struct {
	Messages   uint64 // that turns have read from topics
	Deliveries uint64 // those messages, once for each of their readers
	Conflated  uint64 // times that the waiting messages of an item became the newest state
	Resumes    uint64 // identifiers that continued after a client's last message
	Lost       uint64 // identifiers that could not, because rows are not stored

	// Oldest is the publication time of the oldest message without delay that the last Turn has
	// read, in Unix ns; 0: it has read none.
	Oldest int64
}

// count counts the messages of a turn.
func (f *Figures) count(v *view) {
	n, _ := v.prev.Waiting(v.tail)
	f.Messages += uint64(n)
	f.Deliveries += uint64(n) * uint64(len(v.readers))
	if v.key.Tier.Delay != 0 {
		return
	}
	at := v.prev
	if rec, _, ok := at.Peek(v.tail); ok && (f.Oldest == 0 || rec.At < f.Oldest) {
		f.Oldest = rec.At
	}
}

// countResumes counts the resumes of a Subscribe.
func (f *Figures) countResumes(out *Outcome) {
	for c := range out.Resumed {
		f.Resumes += uint64(len(out.Resumed[c]))
		f.Lost += uint64(len(out.Lost[c]))
	}
}
