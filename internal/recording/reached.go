package recording

// Series is a sequence of N: a channel by its name on the wire, of bars with the interval behind it
// ("bars 1m"), and an instrument.
type Series struct {
	Channel string
	ID      string
}

// Reached is how far a stream was when it was recorded, for whoever resumes it.
type Reached struct {
	Epoch    string
	Position string
	Seen     map[Series]uint64 // newest N of what can be resumed
}

// Take takes the next message of the recording.
func (r *Reached) Take(m *Message) {
	if r.Seen == nil {
		r.Seen = map[Series]uint64{}
	}
	channel := ""
	switch m.Type {
	case "T", "X", "C":
		channel = "trades"
	case "H":
		channel = "status"
	case "K":
		channel = "bars " + m.Bar.Interval
	case "Subscription", "CaughtUp", "Alive":
		if epoch := m.Text("epoch"); epoch != "" && epoch != r.Epoch {
			r.Epoch = epoch
			clear(r.Seen)
		}
		if position := m.Text("position"); position != "" {
			r.Position = position
		}
	}
	if channel != "" {
		r.Seen[Series{channel, m.ID}] = m.N
	}
}
