package recording

import (
	"github.com/ruedahq/rueda/wire"
	"github.com/ruedahq/rueda/wire/stream"
)

// ResumeState is the state of a stream at the end of a recording, from which it can be resumed.
type ResumeState struct {
	Epoch     string
	Position  string
	Sequences map[string]uint64 // newest N of series that can be resumed: trades GGAL|BYMA|24hs
}

// Add updates the state with the next message of the recording.
func (r *ResumeState) Add(m *stream.Message) {
	if r.Sequences == nil {
		r.Sequences = map[string]uint64{}
	}
	if s := m.Series(); m.Kind.IsData() && s.Channel.Replays() {
		r.Sequences[s.String()] = m.N
	}
	switch m.Kind {
	case stream.Subscription, stream.CaughtUp, stream.Alive:
	default:
		return
	}
	if epoch := m.Control.Epoch; epoch != "" && epoch != r.Epoch {
		r.Epoch, r.Position = epoch, ""
		clear(r.Sequences)
	}
	// The position of a Subscription that resumes is after what is still to be replayed.
	if position := m.Control.Position; position != "" && (m.Kind != stream.Subscription || r.Position == "") {
		r.Position = position
	}
}

// Resumes reports whether a Subscription of a connection that continues another one is followed by
// a replay, and so by a CaughtUp: it has channels whose messages are replayed.
func Resumes(c *stream.Control) bool {
	return c.Given[wire.Trades] || c.Given[wire.Status] || c.Given[wire.Bars]
}
