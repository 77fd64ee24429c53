package stream

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// A position is the number of a row of the log, and says that a client has everything up to it. Readers
// of a delay are behind the others, so a set with several delays has a position for each.
type positions struct {
	base    uint64 // of all delays that more does not name
	more    []delayPosition
	unknown bool // a replay has not found its first row yet
}

type delayPosition struct {
	delay int // seconds
	pos   uint64
}

// at returns the position for a delay in seconds.
func (p *positions) at(delay int) uint64 {
	for _, x := range p.more {
		if x.delay == delay {
			return x.pos
		}
	}
	return p.base
}

// positionsOf returns the positions of a list of delays, each once.
func positionsOf(list []delayPosition) (p positions) {
	p.base = math.MaxUint64
	for _, x := range list {
		p.base = min(p.base, x.pos)
	}
	for _, x := range list {
		if x.pos > p.base {
			p.more = append(p.more, x)
		}
	}
	return p
}

// place is the text of a position.
func (h *Hub) place(pos uint64) string { return h.text(positions{base: pos}) }

// text is the text of positions: EPOCH:N, followed by ,DELAY:N for each delay that is at another one.
func (h *Hub) text(p positions) string {
	if p.unknown {
		return ""
	}
	var buf [64]byte
	b := strconv.AppendUint(append(append(buf[:0], h.epoch...), ':'), p.base, 10)
	for _, x := range p.more {
		b = strconv.AppendInt(append(b, ','), int64(x.delay), 10)
		b = strconv.AppendUint(append(b, ':'), x.pos, 10)
	}
	return string(b)
}

// errPosition says that a text is not a position of any server like this one.
var errPosition = errors.New("not a position")

// parsePositions reads the text of positions.
func parsePositions(s string) (epoch string, p positions, err error) {
	epoch, rest, ok := strings.Cut(s, ":")
	first, rest, more := strings.Cut(rest, ",")
	p.base, err = strconv.ParseUint(first, 10, 63)
	if !ok || epoch == "" || err != nil {
		return "", p, errPosition
	}
	for more {
		var part string
		part, rest, more = strings.Cut(rest, ",")
		delay, pos, _ := strings.Cut(part, ":")
		d, err := strconv.ParseUint(delay, 10, 31)
		if err != nil || len(p.more) == maxPatterns {
			return "", p, errPosition
		}
		x := delayPosition{delay: int(d)}
		if x.pos, err = strconv.ParseUint(pos, 10, 63); err != nil {
			return "", p, errPosition
		}
		p.more = append(p.more, x)
	}
	return epoch, p, nil
}

// position is where a client says it was.
type position struct {
	positions
	epoch    string    // "" it did not say
	complete uint64    // the journal has everything behind this one
	safe     positions // where the subscriber was before
}

// readResume reads the position of a resume, and refuses an N where none can be.
func readResume(r *wire.Resume) (p position, f *wire.Fault) {
	if r == nil {
		return p, nil
	}
	if r.Position != "" {
		var err error
		if p.epoch, p.positions, err = parsePositions(r.Position); err != nil {
			return p, wire.NewFault(wire.BadField, "resume.position is not a position this server gave")
		}
	}
	for c := range wire.NumChannels {
		for name := range r.Seen[c] {
			if id, err := market.ParsePattern(name); err == nil && id.IsPattern() {
				return p, wire.NewFault(wire.BadField, "resume takes an N of exact identifiers alone; a pattern resumes by position")
			}
		}
	}
	return p, nil
}

// taken is the position up to which the shard's last Turn took all that is published at a delay in
// seconds.
func (s *Shard) taken(delay int) uint64 {
	if delay == 0 {
		return s.position
	}
	if c := s.hub.replica(delay); c != nil {
		return s.delayed[c.index]
	}
	return 0
}

// note records that the shard has taken all that is published. The hub's lock is held.
func (s *Shard) note() {
	s.position = s.hub.committed
	for i, c := range s.hub.replicas {
		s.delayed[i] = c.position
	}
}

// holdBack lowers the position of a delay, since something of it was not taken.
func (s *Shard) holdBack(delay int, pos uint64) {
	if c := s.hub.replica(delay); c != nil {
		s.delayed[c.index] = min(s.delayed[c.index], pos)
	} else {
		s.position = min(s.position, pos)
	}
}

// delays returns the delays of a set and of items that are added to it, each once; of a set without
// items that of those it had.
func (s *Subscriber) delays(added []Item) (list []int) {
	put := func(d int) {
		if n := len(list); (n == 0 || list[n-1] != d) && !slices.Contains(list, d) {
			list = append(list, d)
		}
	}
	for _, it := range s.items {
		put(it.tier().Delay)
	}
	for i := range added {
		put(added[i].Tier.Delay)
	}
	switch {
	case len(list) > 0:
	case s.longest > 0:
		put(int(s.shard.hub.replicas[s.longest-1].delay / 1e9))
	default:
		put(0)
	}
	return list
}

// safe is a position to resume from: nothing at or before it still waits. What the present turn brought
// has been held.
func (s *Subscriber) safe(added ...Item) positions {
	if len(s.shard.hub.replicas) == 0 {
		low, unknown := s.safeAt(0)
		return positions{base: low, unknown: unknown}
	}
	var list []delayPosition
	unknown := false
	for _, d := range s.delays(added) {
		pos, not := s.safeAt(d)
		list = append(list, delayPosition{d, pos})
		unknown = unknown || not
	}
	p := positionsOf(list)
	p.unknown = unknown
	return p
}

// safeAt is a position to resume the items of a delay from; it is unknown while a replay has not found
// its first row. Items that suppress rows are ahead of their replica.
func (s *Subscriber) safeAt(delay int) (low uint64, unknown bool) {
	all := s.shard.taken(delay)
	low = all
	if delay > 0 {
		low = math.MaxUint64
		for _, it := range s.items {
			switch {
			case it.tier().Delay != delay || !it.reads():
			case it.late != nil && it.late.elsewhere != nil:
				low = min(low, max(all, it.late.elsewhere.least(it.id())))
			default:
				low = min(low, all)
			}
		}
		if low == math.MaxUint64 {
			low = all
		}
	}
	for _, it := range s.queue() {
		if it.tier().Delay == delay {
			low = min(low, it.gathered())
		}
	}
	return low, low == 0 && all > 0
}

// Position is a place to resume from: nothing at or before it still waits. It is "" while that is
// not known, because a replay has yet to find its first row in the journal.
func (s *Subscriber) Position() (epoch, position string) {
	s.hold()
	return s.shard.hub.epoch, s.shard.hub.text(s.safe())
}
