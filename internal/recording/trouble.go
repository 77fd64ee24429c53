package recording

import (
	"fmt"
	"strconv"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Trouble counts what went wrong with a stream while it was recorded.
type Trouble struct {
	Cut       int // connections that were lost
	Conflated int // warnings that quotes and books were left out, since the client was slow
	Lost      int // ranges that could not be had any more
}

// Take takes the type of a message, and its reason.
func (t *Trouble) Take(kind, reason string) {
	if kind == "Warning" && reason == "slow_client" {
		t.Conflated++
	}
}

// String is the end of a sentence: "" where nothing went wrong.
func (t *Trouble) String() string {
	text := ""
	if t.Conflated > 0 {
		text += fmt.Sprintf("; the server warned %s that it conflates quotes and books", times(t.Conflated))
	}
	if t.Cut > 0 {
		text += fmt.Sprintf("; the connection was lost %s", times(t.Cut))
	}
	if t.Lost > 0 {
		text += fmt.Sprintf("; %d ranges were lost, see its lines %q", t.Lost, Lost)
	}
	return text
}

// LostIn is what an acknowledgement says that cannot be had any more, as notes.
func LostIn(v *wire.Value) (list []Note) {
	all := v.Get("lost")
	for i := range all.Fields {
		channel := &all.Fields[i]
		for j := range channel.Value.Fields {
			id := &channel.Value.Fields[j]
			n := Note{Kind: Lost, Channel: channel.Name, Instrument: id.Name, Reason: text(&id.Value, "reason")}
			n.From, _ = strconv.ParseUint(text(&id.Value, "from"), 10, 64) // absent: not known
			n.To, _ = strconv.ParseUint(text(&id.Value, "to"), 10, 64)
			list = append(list, n)
		}
	}
	return list
}

// Feeds is whether the feed of a market or an instrument is down or up, as it was told last.
type Feeds map[string]string

// Turned takes a phase and says whether it tells something new of a feed. A state that says so has the N
// of the status before it, so its N does not tell.
func (f Feeds) Turned(id, phase string) bool {
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
