package marketdata

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/ruedahq/rueda/internal/recording"
	"github.com/ruedahq/rueda/wire"
)

// gapError ends a connection with missing messages. The next connection resumes before them.
type gapError struct {
	key      recording.Series
	from, to uint64
}

func (e *gapError) Error() string {
	if e.from == e.to {
		return fmt.Sprintf("%s %s #%d is missing", e.key.Channel, e.key.ID, e.from)
	}
	return fmt.Sprintf("%s %s #%d to #%d are missing", e.key.Channel, e.key.ID, e.from, e.to)
}

// contiguous detects missing messages in channels without gaps. The first time it returns a
// gapError, before the message after the gap is used. A gap that appears again is reported as lost:
// the server cannot fill it.
func (l *link) contiguous(channel string, v *wire.Value) error {
	key := recording.Series{Channel: channel, ID: text(v, "I")}
	state := v.Get("R").True && channel == chStatus
	if l.keepGaps || !l.numbered(channel) || state && !isPattern(key.ID) {
		return nil
	}
	before := l.seen[key]
	n, err := strconv.ParseUint(text(v, "N"), 10, 64)
	if err != nil || before == 0 || n <= before+1 {
		return nil // data reports a message without N
	}
	if state { // of a whole market, which has no N to resume from
		return l.reportLost(lost{channel, key.ID, before + 1, n - 1, "not replayed"})
	}
	if l.asked[key] != before {
		l.asked[key] = before
		return &gapError{key, before + 1, n - 1}
	}
	return l.reportLost(lost{channel, key.ID, before + 1, n - 1, "missing"})
}

// numbered reports whether N of a channel has no gaps. Statuses that come with books have gaps.
func (l *link) numbered(channel string) bool {
	switch channel {
	case "", chQuotes, chBook, chSummary:
		return false
	case chStatus:
		return slices.Contains(l.want.channels, chStatus)
	}
	return true
}

// maxNames keeps a subscription below the maximum size of a message, 64 KiB.
const maxNames = 100

// withGaps adds instruments with a gap to the identifiers of a subscription. A pattern resumes from
// a position, which may be after the gap. An instrument with its own name resumes from its N. Other
// instruments may have gaps that are not visible yet, so it adds them too.
func (l *link) withGaps(channel string, ids []string) []string {
	var gaps, others []string
	for key, n := range l.seen {
		if key.Channel != channel || isPattern(key.ID) || slices.Contains(ids, key.ID) {
			continue
		}
		if l.asked[key] == n {
			gaps = append(gaps, key.ID)
		} else {
			others = append(others, key.ID)
		}
	}
	if !l.resuming {
		others = nil
	}
	slices.Sort(others)
	named := slices.Concat(gaps, others)
	return append(slices.Clip(ids), named[:min(len(named), maxNames)]...)
}

// markSeen marks lost messages as seen, so that they are not reported again.
func (l *link) markSeen(answer *wire.Value, x lost) {
	key := recording.Series{Channel: x.channel, ID: x.id}
	if x.channel == chBars {
		key.Channel += " " + l.bars[text(answer, "id")]
	}
	if x.to == 0 {
		delete(l.seen, key) // the end is unknown
	} else {
		l.seen[key] = max(l.seen[key], x.to)
	}
}
