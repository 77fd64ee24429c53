package subscription

import (
	"maps"
	"slices"

	"github.com/ruedahq/rueda/wire"
)

// MaxLost is the number of ranges that one message says are lost. A pattern may cover more
// instruments.
const MaxLost = 10_000

const rowsLost = "Rows lost"

// SplitLost leaves the first MaxLost ranges in a message, and returns further messages with the
// others.
func SplitLost(m *wire.Subscription) (more []wire.Subscription) {
	n := 0
	for _, lost := range m.Lost {
		n += len(lost)
	}
	if n <= MaxLost {
		return nil
	}
	all := m.Lost
	m.Lost = [wire.NumChannels]map[string]wire.Range{}
	n = 0
	to := &m.Lost
	for c := range all {
		for _, name := range slices.Sorted(maps.Keys(all[c])) {
			if n == MaxLost {
				more = append(more, wire.Subscription{Msg: rowsLost, Epoch: m.Epoch})
				n, to = 0, &more[len(more)-1].Lost
			}
			if to[c] == nil {
				to[c] = make(map[string]wire.Range)
			}
			to[c][name] = all[c][name]
			n++
		}
	}
	return more
}
