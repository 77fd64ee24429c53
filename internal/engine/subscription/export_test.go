package subscription

import (
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/readjob"
	"github.com/ruedahq/rueda/internal/engine/subscription/replay"
)

// The tests of this package use subscribers as sessions do. The functions of this file show them
// what subscribers keep.

const (
	MaxBeforeState  = maxBeforeState
	MaxBehindReplay = maxBehindReplay
	MaxHolders      = maxHolders
	MaxVisited      = maxVisited
	OldRows         = replay.ReadRows
	StateBatch      = stateBatch
)

// Port returns the port of the shard.
func (s *Shard) Port() *hub.Port { return s.hub }

// Views returns the number of topics that the shard reads.
func (s *Shard) Views() int { return len(s.views) }

// Carry returns the number of bytes of encoded frames that are sent first.
func (s *Subscriber) Carry() int { return len(s.wait.carry) }

// Reading returns the jobs of the items that wait for rows of the journal; nil: not requested yet.
func (s *Subscriber) Reading() (list []*readjob.Job) {
	for _, it := range s.wait.reading {
		list = append(list, it.late.replay.job)
	}
	return list
}

// Holders returns the number of replays that hold rows of the journal, as counted, and the number
// that has rows.
func (s *Subscriber) Holders() (counted, have int) {
	for _, it := range s.items {
		if it.late != nil && it.late.replay != nil && it.late.replay.HasRead() {
			have++
		}
	}
	return s.wait.holders, have
}

// Drop drops the first item as a move does.
func (s *Subscriber) Drop() {
	s.shard.hub.Lock()
	defer s.shard.hub.Unlock()
	s.items[0].drop()
}

// Elsewhere returns the most rows that an item records as sent by others.
func (s *Subscriber) Elsewhere() (most int) {
	for _, it := range s.items {
		if it.late != nil {
			most = max(most, it.late.elsewhere.Len())
		}
	}
	return most
}
