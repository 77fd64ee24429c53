package recording

// Series identifies a sequence of N: a channel by its name on the wire, with the interval for bars
// ("bars 1m"), and an instrument.
type Series struct {
	Channel string
	ID      string
}

// ChannelOf returns the channel of a message type, as in a Series, or "" if it is not market data.
func ChannelOf(kind, interval string) string {
	switch kind {
	case "T", "X", "C":
		return "trades"
	case "Q":
		return "quotes"
	case "O":
		return "order_book"
	case "H":
		return "status"
	case "K":
		return "bars " + interval
	case "D":
		return "summary"
	}
	return ""
}

// ResumeState is the state of a stream at the end of a recording, from which it can be resumed.
type ResumeState struct {
	Epoch    string
	Position string
	Seen     map[Series]uint64 // newest N of series that can be resumed
}

// Add updates the state with the next message of the recording.
func (r *ResumeState) Add(m *Message) {
	if r.Seen == nil {
		r.Seen = map[Series]uint64{}
	}
	switch m.Type {
	case "T", "X", "C", "H", "K":
		r.Seen[Series{ChannelOf(m.Type, m.Bar.Interval), m.ID}] = m.N
	case "Subscription", "CaughtUp", "Alive":
		if epoch := m.Text("epoch"); epoch != "" && epoch != r.Epoch {
			r.Epoch = epoch
			clear(r.Seen)
		}
		if position := m.Text("position"); position != "" {
			r.Position = position
		}
	}
}
