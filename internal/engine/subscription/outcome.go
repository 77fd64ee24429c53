package subscription

import (
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/wire"
)

// Options has the options of Subscribe.
type Options struct {
	Replace    bool         // the items replace the whole set, unless all of them are rejected
	NoSnapshot bool         // no snapshots of quotes, books, statuses and summaries
	Resume     *wire.Resume // what the client has received; nil: live from now
	Start      Start        // replay rows from this time on; not together with Resume
	Today      bool         // do not replay rows that need the right to history
	Found      func()       // any goroutine calls it when the Search of an Outcome has ended; nil: Subscribe waits
	Search     *Search      // from the Outcome of an earlier Subscribe of the same items

	// Visit is called after n visits of items, while the hub's lock is not held; nil: no calls. If it
	// panics, the set is unchanged.
	Visit func(n int)
}

func (o *Options) visit(n int) {
	if o.Visit != nil {
		o.Visit(n)
	}
}

// Outcome has the result of Subscribe.
type Outcome struct {
	Epoch    string
	Position string // a client can resume from it after this Subscribe; "": not known
	CaughtUp string // a client can resume from it after the replay has ended; "": not known
	Rejected []Rejected
	Resumed  [wire.NumChannels]map[string]uint64 // by identifier: the N at which its replay ends
	Lost     [wire.NumChannels]map[string]Lost   // by identifier: the rows that cannot be replayed
	Moved    []hub.Item                          // items of the set that continue at another delay
	Work     Work
	Fault    *wire.Fault // why the whole request is refused; nothing has changed
	Search   *Search     // nothing has changed yet: call Subscribe again when the search has ended
}

// Rejected is an item that was refused, with the reason and a hint for the client.
type Rejected struct {
	Item   hub.Item
	Reason wire.Reason
	Hint   string
}

// Lost is a range of N that cannot be sent again.
type Lost struct {
	From, To uint64 // 0: not known
	Reason   string // buffer_exceeded, forbidden, ahead, epoch_changed
}

func (o *Outcome) resume(c wire.Channel, name string, n uint64) {
	if o.Resumed[c] == nil {
		o.Resumed[c] = make(map[string]uint64)
	}
	o.Resumed[c][name] = n
}

func (o *Outcome) lose(c wire.Channel, name string, l Lost) {
	if o.Lost[c] == nil {
		o.Lost[c] = make(map[string]Lost)
	}
	o.Lost[c][name] = l
}
