package recording

// Series is a sequence of N: a channel by its name on the wire, of bars with the interval behind it
// ("bars 1m"), and an instrument.
type Series struct {
	Channel string
	ID      string
}

// ChannelOf is the channel of a type of messages, as a Series has it; "" where it is of no market data.
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
