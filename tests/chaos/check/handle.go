package check

import (
	"maps"
	"slices"
	"strings"

	"github.com/ruedahq/rueda/tests/chaos/market"
	"github.com/ruedahq/rueda/tests/chaos/stream"
)

// handle processes one message.
func (k *Client) handle(m *stream.Message) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case m.Action == "ping":
		return k.socket.Send(map[string]any{"action": "pong"})
	case m.Action == "pong":
	case len(m.Type) == 1:
		k.data(m)
	case m.Type == "Success":
		k.answered(m, "auth")
		k.live, k.next = true, k.next.Truncate(0)
		if k.set == nil || k.r.IntN(5) == 0 && !k.calm.Load() {
			k.choose()
		}
		k.subscribe(k.items())
	case m.Type == "Subscription":
		k.subscription(m)
	case m.Type == "CaughtUp":
		k.caughtUp(m)
	case m.Type == "Alive":
		k.report.Count("alive marks", 1)
		k.alive(m)
		k.positioned(m)
	case m.Type == "Warning":
		k.report.Count("warning "+m.Reason, 1)
	case m.Type == "Error":
		return k.failed(m)
	default:
		k.report.Violation("message", "%s: unknown: %s", k.c.Name, m.Text)
	}
	return nil
}

// answered ends the request that a message answers, and returns it.
func (k *Client) answered(m *stream.Message, kind string) *request {
	r := k.pending
	if r == nil || stream.Integer(m.ID) != r.id {
		k.report.Violation("answer", "%s: to nothing: %s", k.c.Name, m.Text)
		return nil
	}
	if kind != "" && r.kind != kind {
		k.report.Violation("answer", "%s: to %v: %s", k.c.Name, r.message, m.Text)
	}
	k.pending = nil
	return r
}

func (k *Client) failed(m *stream.Message) error {
	k.report.Count("error "+m.Reason, 1)
	switch {
	case m.Reason == "token_expired" || m.Reason == "token_revoked" || m.Reason == "invalid_token":
		k.token = ""
	case !allowed(m.Reason):
		k.report.Violation("error", "%s: %s", k.c.Name, m.Text)
	}
	return errDrop
}

// subscription is an answer, or a report of the gateway.
func (k *Client) subscription(m *stream.Message) {
	if m.Epoch != k.epoch {
		k.c.Judge.Epoch(m.Epoch)
		if k.epoch != "" {
			k.report.Count("epochs learned by clients", 1)
			k.forget()
		}
		k.epoch = m.Epoch
	}
	if len(m.Rejected) > 0 || len(m.Removed) > 0 {
		if !slices.ContainsFunc(m.Rejected, func(r stream.Rejected) bool { return allowed(r.Reason) }) {
			k.report.Violation("rejected", "%s: %s", k.c.Name, m.Text)
		}
	}
	if _, replay := k.replays[stream.Integer(m.ID)]; m.ID == "" || replay {
		k.lost(m) // of rows that a replay has not found, or of the gateway itself
		return
	}
	r := k.answered(m, "")
	if r == nil {
		return
	}
	switch r.kind {
	case "subscribe":
		k.accepted(r, m)
		if r.message["resume"] != nil {
			k.replays[r.id] = map[string]int64{}
			for channel, list := range m.Resumed {
				for ident, n := range list {
					k.replays[r.id][channel+" "+ident] = n
				}
			}
		}
	case "unsubscribe":
		for _, it := range r.items {
			if st := k.set[it]; st != nil {
				st.on = false
			}
			if it.channel == "order_book" {
				delete(k.books, it.ident)
			}
			for _, replay := range k.replays { // it ends without the rest of this series
				delete(replay, it.channel+" "+it.ident)
			}
		}
	}
	k.lost(m)
	k.positioned(m)
}

// positioned keeps a position for the items that are subscribed.
func (k *Client) positioned(m *stream.Message) {
	if m.Position == "" {
		return
	}
	for _, st := range k.set {
		if st.on {
			st.position = m.Position
		}
	}
}

// lost begins a series after the rows that cannot be replayed.
func (k *Client) lost(m *stream.Message) {
	for channel, list := range m.Lost {
		for ident, gap := range list {
			k.report.Count("lost "+gap.Reason, 1)
			k.c.Judge.Lost(k.epoch, channel+" "+ident, gap)
			if !k.c.Judge.mayLose(gap) {
				k.report.Violation("lost", "%s: %s %s: %s", k.c.Name, channel, ident, m.Text)
			}
			if s := k.series[channel+" "+ident]; s != nil {
				if gap.From != 0 && s.last > 0 && s.now == 0 && gap.From > s.last+1 && s.atMost == 0 {
					k.report.Violation("lost", "%s: %s begins after %d: %s", k.c.Name, ident, s.last, m.Text)
				}
				s.exact, s.atMost, s.now = 0, 0, 0
				if gap.To != 0 {
					s.last, s.exact = gap.To, gap.To+1
				}
			}
		}
	}
}

// mayLose reports whether rows may be lost.
func (j *Judge) mayLose(gap stream.Range) bool {
	switch gap.Reason {
	case "epoch_changed":
		return j.Epochs
	case "buffer_exceeded":
		return j.Missing
	}
	return false
}

// caughtUp ends a replay: each series that was resumed has its newest N.
func (k *Client) caughtUp(m *stream.Message) {
	k.report.Count("replays", 1)
	id := stream.Integer(m.ID)
	for name, n := range k.replays[id] {
		s, on := k.series[name], false
		channel, ident, _ := strings.Cut(name, " ")
		for it, st := range k.set {
			on = on || st.on && it.channel == channel && matches(it.ident, ident)
		}
		// Live messages may have come before. A series that was removed meanwhile is not complete, and
		// all rows of one that the client does not have may be before its position.
		if on && s != nil && s.last > 0 && s.last < n && k.pending == nil {
			k.report.Violation("resume", "%s: %s has %d, not %d: %s", k.c.Name, name, s.last, n, m.Text)
		}
	}
	delete(k.replays, id)
	k.positioned(m)
}

// alive compares the newest N of quiet series.
func (k *Client) alive(m *stream.Message) {
	for channel, list := range m.Last {
		for ident, n := range list {
			s := k.series[channel+" "+ident]
			if s != nil && replayed(channel) && s.now > 0 && s.last != n {
				k.report.Violation("alive", "%s: %s %s has %d, the mark %d", k.c.Name, channel, ident, s.last, n)
			}
		}
	}
}

// data judges a message, and its place in its series.
func (k *Client) data(m *stream.Message) {
	name := Series(m)
	var depth int
	var book market.Book
	covered := slices.ContainsFunc(slices.Collect(maps.Keys(k.set)), func(it item) bool {
		channel, ident, _ := strings.Cut(name, " ")
		return k.set[it].on && it.channel == channel && matches(it.ident, ident)
	})
	if in := k.c.Judge.Market.Instrument(m.I); m.Type == "O" && in != nil {
		b := k.books[m.I]
		if b == nil {
			b = &clientBook{}
			k.books[m.I] = b
		}
		if m.N == nil || m.K == nil {
			k.report.Violation("O", "%s: no N or K: %s", k.c.Name, m.Text)
			return
		}
		if wrong := b.apply(in, m); wrong != "" {
			k.report.Violation("O change", "%s: %s: %s", k.c.Name, wrong, m.Text)
			return
		}
		book, depth = b.Book, b.depth
	}
	k.c.Judge.Message(k.epoch, m, book, depth)
	if m.Type == "H" && (ofGateway(m) || strings.HasPrefix(m.I, "*|")) && !covered {
		return // it reaches every connection of the market
	}
	if !covered {
		k.report.Violation("unsubscribed", "%s: %s", k.c.Name, m.Text)
		return
	}
	if m.N != nil && replayed(name[:strings.Index(name, " ")]) && !(m.Type == "H" && m.Snapshot()) && !strings.HasPrefix(m.I, "*|") {
		k.follow(name, m)
	}
}

// follow checks that N follows the one before.
func (k *Client) follow(name string, m *stream.Message) {
	s, n := k.series[name], *m.N
	if s == nil {
		return
	}
	switch {
	case s.now != 0 && n != s.now+1:
		k.report.Violation("sequence", "%s: N %d follows %d: %s", k.c.Name, n, s.now, m.Text)
	case s.now == 0 && s.exact != 0 && n != s.exact:
		k.report.Violation("sequence", "%s: N %d begins a replay, not %d: %s", k.c.Name, n, s.exact, m.Text)
	case s.now == 0 && s.atMost != 0 && n > s.atMost:
		k.report.Violation("sequence", "%s: N %d begins a replay by position, after %d: %s", k.c.Name, n, s.atMost-1, m.Text)
	}
	s.now, s.last = n, max(s.last, n)
}
