package dayhash

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Report has the closed days of a node.
type Report struct {
	Node string
	Days []Day
}

// Difference is a closed day on which the hashes of two nodes differ, or that this node cannot
// read.
type Difference struct {
	Date       string
	Node       string // the other one; "": this node cannot read the day
	Own, Other string // hashes
	Same       int    // other nodes with the hash of this one
	Differ     int    // other nodes with another hash
}

// Comparison compares the days of this node with those of the others.
type Comparison struct {
	mu     sync.Mutex
	own    []Day
	dates  map[string]bool  // of own
	others map[string]heard // by node
	known  map[Difference]bool
}

// heard is the newest report of a node.
type heard struct {
	days map[string]Day // those that this node has too, by date
	at   time.Time
}

// Limits of what is kept of reports.
const (
	maxNodes = 1024
	maxText  = 128 // bytes of the name of a node, and of a hash
)

// forget is the time after which a node without a report does not count any more.
const forget = 10 * time.Minute

// Own sets the days of this node. It returns the differences that are new.
func (c *Comparison) Own(days []Day) []Difference {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.own, c.dates = days, make(map[string]bool, len(days))
	for _, d := range days {
		c.dates[d.Date] = true
	}
	return c.fresh()
}

// Heard takes the report of another node. It returns the differences that are new. Days that this
// node does not have are compared with the next report, if it has them then.
func (c *Comparison) Heard(r Report) []Difference {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.others == nil {
		c.others = map[string]heard{}
	}
	c.forget()
	if _, known := c.others[r.Node]; len(r.Node) > maxText || !known && len(c.others) >= maxNodes {
		return nil
	}
	days := make(map[string]Day)
	for _, d := range r.Days {
		if c.dates[d.Date] && len(d.Hash) <= maxText {
			days[d.Date] = d
		}
	}
	c.others[r.Node] = heard{days, time.Now()}
	return c.fresh()
}

// Differ returns the number of closed days of this node that differ from those of another node, or
// that it cannot read.
func (c *Comparison) Differ() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	dates := map[string]bool{}
	for _, d := range c.differences() {
		dates[d.Date] = true
	}
	return len(dates)
}

// fresh returns the differences that were not returned before. c.mu is held.
func (c *Comparison) fresh() (list []Difference) {
	now := map[Difference]bool{}
	for _, d := range c.differences() {
		key := d
		key.Same, key.Differ = 0, 0 // these change while nodes come and go
		if now[key] = true; !c.known[key] {
			list = append(list, d)
		}
	}
	c.known = now
	return list
}

// differences returns all differences, by date and node. c.mu is held.
func (c *Comparison) differences() (list []Difference) {
	c.forget()
	for _, own := range c.own {
		if own.Hash == "" {
			list = append(list, Difference{Date: own.Date})
			continue
		}
		first, same := len(list), 0
		for name, h := range c.others {
			other, ok := h.days[own.Date]
			switch {
			case !ok || !sameRows(&own, &other):
			case other.Hash == own.Hash:
				same++
			default:
				list = append(list, Difference{Date: own.Date, Node: name, Own: own.Hash, Other: other.Hash})
			}
		}
		for i := first; i < len(list); i++ {
			list[i].Same, list[i].Differ = same, len(list)-first
		}
	}
	slices.SortFunc(list, func(a, b Difference) int { return cmp.Or(cmp.Compare(a.Date, b.Date), cmp.Compare(a.Node, b.Node)) })
	return list
}

// forget forgets nodes that have not reported for long. c.mu is held.
func (c *Comparison) forget() {
	for name, h := range c.others {
		if time.Since(h.at) > forget {
			delete(c.others, name)
		}
	}
}

// sameRows reports whether two journals must have the same rows on a day. One that has begun on
// that day has fewer. A day that another node cannot read is its own difference.
func sameRows(a, b *Day) bool {
	return b.Hash != "" && (a.From == b.From || !(a.Oldest && a.From > b.From) && !(b.Oldest && b.From > a.From))
}
