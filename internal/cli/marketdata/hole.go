package marketdata

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/ruedahq/rueda/internal/recording"
	"github.com/ruedahq/rueda/wire"
)

// hole is what ends a connection on which messages are missing: the next resumes before them.
type hole struct {
	key      recording.Series
	from, to uint64
}

func (h *hole) Error() string {
	if h.from == h.to {
		return fmt.Sprintf("%s %s #%d did not come", h.key.Channel, h.key.ID, h.from)
	}
	return fmt.Sprintf("%s %s #%d to #%d did not come", h.key.Channel, h.key.ID, h.from, h.to)
}

// contiguous looks for holes in the channels that have none. The first time one is found it is an
// error, before anything is done with the message behind it; where it comes again the server
// has nothing to fill it with, and it is told as lost.
func (l *link) contiguous(channel string, v *wire.Value) error {
	key := recording.Series{Channel: channel, ID: text(v, "I")}
	state := v.Get("R").True && channel == chStatus
	if l.asIs || !l.numbered(channel) || state && !isPattern(key.ID) {
		return nil
	}
	before := l.seen[key]
	n, err := strconv.ParseUint(text(v, "N"), 10, 64)
	if err != nil || before == 0 || n <= before+1 {
		return nil // what has no N is told of by data
	}
	if state { // of a market as a whole, which has no N to resume from
		return l.gone(lost{channel, key.ID, before + 1, n - 1, "not replayed"})
	}
	if l.asked[key] != before {
		l.asked[key] = before
		return &hole{key, before + 1, n - 1}
	}
	return l.gone(lost{channel, key.ID, before + 1, n - 1, "missing"})
}

// numbered says whether N of a channel has no holes. Notices of status come to readers of books too,
// and those have.
func (l *link) numbered(channel string) bool {
	switch channel {
	case "", chQuotes, chBook, chSummary:
		return false
	case chStatus:
		return slices.Contains(l.want.channels, chStatus)
	}
	return true
}

// maxNamed keeps a subscription with names below the size that a server takes: 64 KiB.
const maxNamed = 100

// withHoles adds instruments with a hole to the identifiers of a subscription. One that is had by a pattern
// resumes from a position, which may be past the hole; by its own name it resumes from its N. Where one
// has a hole others may have some that did not show yet, so they are named too.
func (l *link) withHoles(channel string, ids []string) []string {
	var holes, others []string
	for key, n := range l.seen {
		if key.Channel != channel || isPattern(key.ID) || slices.Contains(ids, key.ID) {
			continue
		}
		if l.asked[key] == n {
			holes = append(holes, key.ID)
		} else {
			others = append(others, key.ID)
		}
	}
	if !l.mending {
		others = nil
	}
	slices.Sort(others)
	named := slices.Concat(holes, others)
	return append(slices.Clip(ids), named[:min(len(named), maxNamed)]...)
}

// pass takes what a server told to be lost as seen, so that it is not missed again.
func (l *link) pass(answer *wire.Value, x lost) {
	key := recording.Series{Channel: x.channel, ID: x.id}
	if x.channel == chBars {
		key.Channel += " " + l.bars[text(answer, "id")]
	}
	if x.to == 0 {
		delete(l.seen, key) // how much is not known
	} else {
		l.seen[key] = max(l.seen[key], x.to)
	}
}
