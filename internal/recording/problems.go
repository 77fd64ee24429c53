package recording

import (
	"fmt"
	"strconv"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Problems counts the problems of a stream while it was recorded.
type Problems struct {
	Disconnects int // lost connections
	Conflated   int // warnings that quotes and books are conflated because the client is slow
	Lost        int // ranges that the server could not replay
}

// Add counts a message, given its type and reason.
func (t *Problems) Add(kind, reason string) {
	if kind == "Warning" && reason == "slow_client" {
		t.Conflated++
	}
}

// String returns the end of a sentence that lists the problems, "" if there were none.
func (t *Problems) String() string {
	text := ""
	if t.Conflated > 0 {
		text += fmt.Sprintf("; the server warned %s that it conflates quotes and books", times(t.Conflated))
	}
	if t.Disconnects > 0 {
		text += fmt.Sprintf("; the connection was lost %s", times(t.Disconnects))
	}
	if t.Lost > 0 {
		text += fmt.Sprintf("; %d ranges were lost, see its lines %q", t.Lost, Lost)
	}
	return text
}

// LostIn returns the lost ranges of an acknowledgement, as notes.
func LostIn(v *wire.Value) (list []Note) {
	all := v.Get("lost")
	for i := range all.Fields {
		channel := &all.Fields[i]
		for j := range channel.Value.Fields {
			id := &channel.Value.Fields[j]
			n := Note{Kind: Lost, Channel: channel.Name, Instrument: id.Name, Reason: text(&id.Value, "reason")}
			n.From, _ = strconv.ParseUint(text(&id.Value, "from"), 10, 64) // absent: unknown
			n.To, _ = strconv.ParseUint(text(&id.Value, "to"), 10, 64)
			list = append(list, n)
		}
	}
	return list
}

// FeedStates holds the last feed status (down or up) of each market or instrument.
type FeedStates map[string]string

// Changed records a phase and reports whether it is a new feed status. It does not use N, because
// the N of a snapshot is that of the previous status.
func (f FeedStates) Changed(id, phase string) bool {
	if f[id] == phase || phase != market.FeedDown.String() && phase != market.FeedUp.String() {
		return false
	}
	f[id] = phase
	return true
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
