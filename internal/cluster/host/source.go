package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/internal/cluster"
	"github.com/ruedahq/rueda/internal/engine/journal"
)

// The numbers that sources give to their events are in the log as cluster.Source, in the group of
// the rows of these events. The name is NUMBER.CHANNEL of an instrument. NUMBER alone has the hash
// of the numbering.

// errNotLeading means that another node numbers now.
var errNotLeading = errors.New("this node is no longer the sequencer")

// numberings are what pendingRows knows of the numbers of sources. Its lock guards it.
type numberings struct {
	hash  map[uint32]uint64 // of the numbering of an instrument
	noted map[string]uint64 // in the pending rows
	came  map[string]uint64 // in the log
}

func newNumberings() numberings {
	return numberings{hash: map[uint32]uint64{}, noted: map[string]uint64{}, came: map[string]uint64{}}
}

func sourceName(s *journal.Source) string { return fmt.Sprintf("%d.%d", s.Instrument, s.Channel) }

// hold notes the numbers that the log has, and returns them.
func (l *pendingRows) hold(list []cluster.Source) (held []journal.Source) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range list {
		if n, err := strconv.ParseUint(s.Name, 10, 32); err == nil {
			l.hash[uint32(n)] = s.Sequence
		}
	}
	held = sourcesOf(list)
	for i := range held {
		s := &held[i]
		l.noted[sourceName(s)], l.came[sourceName(s)] = s.Sequence, s.Sequence
	}
	return held
}

// note adds a number to the group of the rows that were appended. l.mu is held.
func (l *pendingRows) note(s *journal.Source) {
	if l.hash[s.Instrument] != s.Numbering {
		l.hash[s.Instrument] = s.Numbering
		l.enc.Source(strconv.FormatUint(uint64(s.Instrument), 10), s.Numbering)
		for c := range journal.NumChannels {
			name := sourceName(&journal.Source{Instrument: s.Instrument, Channel: c})
			if l.noted[name] > 0 {
				l.noted[name], l.came[name] = 0, 0
				l.enc.Source(name, 0)
			}
		}
	}
	if name := sourceName(s); l.noted[name] < s.Sequence {
		l.noted[name] = s.Sequence
		l.enc.Source(name, s.Sequence)
	}
}

// stored notes numbers that have come back from the log.
func (l *pendingRows) stored(list []cluster.Source) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range list {
		l.came[s.Name] = s.Sequence
	}
	l.taken.Broadcast()
}

// awaitStored waits until numbers have come back from the log. The error is errNotLeading, or the
// cause of the end of ctx.
func (l *pendingRows) awaitStored(ctx context.Context, list []journal.Source) error {
	defer context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.taken.Broadcast()
	})()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range list {
		l.note(&list[i])
	}
	l.notify()
	missing := func(s journal.Source) bool { return l.came[sourceName(&s)] < s.Sequence }
	for slices.ContainsFunc(list, missing) {
		switch {
		case l.closed:
			return errNotLeading
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		l.taken.Wait()
	}
	return nil
}

// AwaitStored implements feed.Resumer.
func (s sink) AwaitStored(ctx context.Context, list []feed.Held) error {
	return s.pending.awaitStored(ctx, s.Hub.SourcesOf(list))
}

var _ feed.Resumer = sink{}
