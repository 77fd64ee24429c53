package check

import (
	"time"

	"github.com/ruedahq/rueda/tests/chaos/stream"
)

// choose makes a new set. Numbers of series that stay in it are kept.
func (k *Client) choose() {
	k.set = map[item]*state{}
	add := func(it item) { k.set[it] = &state{} }
	list := k.c.Judge.Market.Instruments
	for _, channel := range []string{"trades", "status", "quotes", "summary"} {
		if k.r.IntN(3) == 0 {
			add(item{channel: channel, ident: []string{"*|M1|24hs", "*|*|24hs", "*|M1|*"}[k.r.IntN(3)]})
			continue
		}
		for _, in := range list {
			if k.r.IntN(2) == 0 {
				add(item{channel: channel, ident: in.ID})
			}
		}
	}
	depths := []int{1, 5, 10, 25, 0}
	for _, in := range list {
		if k.r.IntN(2) == 0 {
			add(item{channel: "order_book", ident: in.ID, depth: depths[k.r.IntN(5)], conflate: []string{"", "", "", "100ms"}[k.r.IntN(4)]})
		}
		for _, interval := range []string{"1s", "1m"} {
			if k.r.IntN(2) == 0 {
				add(item{channel: "bars", ident: in.ID + "|" + interval})
			}
		}
	}
	if len(k.set) == 0 {
		add(item{channel: "trades", ident: list[0].ID})
	}
}

// subscribe queues requests for items: one for each depth, conflation and position. Items that the
// client knows resume.
func (k *Client) subscribe(items []item) {
	type options struct {
		depth              int
		conflate, position string
	}
	groups := map[options]*request{}
	var order []*request
	for _, it := range items {
		st := k.set[it]
		o := options{it.depth, it.conflate, st.position}
		r := groups[o]
		if r == nil {
			r = &request{kind: "subscribe", resume: map[item]int64{}, position: st.position, message: map[string]any{"action": "subscribe"}}
			groups[o], order = r, append(order, r)
			if it.depth != 0 || it.channel == "order_book" {
				r.message["depth"] = it.depth
			}
			if it.conflate != "" {
				r.message["conflate"] = it.conflate
			}
		}
		r.items = append(r.items, it)
		s := k.series[it.channel+" "+it.ident]
		if replayed(it.channel) && s != nil && s.last > 0 && (st.position == "" || k.r.IntN(2) == 0) {
			r.resume[it] = s.last
		}
	}
	for _, r := range order {
		resume := map[string]any{}
		for _, it := range r.items {
			list, _ := r.message[it.channel].([]string)
			r.message[it.channel] = append(list, it.ident)
			if n, ok := r.resume[it]; ok {
				numbers, _ := resume[it.channel].(map[string]int64)
				if numbers == nil {
					numbers = map[string]int64{}
					resume[it.channel] = numbers
				}
				numbers[it.ident] = n
			}
		}
		if r.position != "" {
			resume["position"] = r.position
		}
		if len(resume) > 0 {
			resume["epoch"] = k.epoch
			r.message["resume"] = resume
		}
		r.message["alive"] = true
		k.todo = append(k.todo, r)
	}
}

// replayed reports whether a channel can be resumed.
func replayed(channel string) bool {
	return channel == "trades" || channel == "status" || channel == "bars"
}

// act sends the next request, or begins an action when its time has come.
func (k *Client) act() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if k.pending != nil {
		if now.Sub(k.pending.sent) > 60*time.Second {
			k.report.Violation("answer", "%s: none to %v for a minute", k.c.Name, k.pending.message)
			return errDrop
		}
		return nil
	}
	if len(k.todo) > 0 {
		r := k.todo[0]
		k.todo = k.todo[1:]
		return k.send(r)
	}
	if !k.live || k.calm.Load() || now.Before(k.next) {
		return nil
	}
	k.next = now.Add(time.Duration(100+k.r.IntN(4_000)) * time.Millisecond)
	return k.action()
}

// action is a random one.
func (k *Client) action() error {
	var some, off []item
	for _, it := range k.items() {
		switch {
		case !k.set[it].on:
			off = append(off, it)
		case k.r.IntN(3) == 0:
			some = append(some, it)
		}
	}
	if len(off) > 0 { // those of an earlier action
		k.subscribe(off)
		return nil
	}
	switch n := k.r.IntN(12); {
	case n < 2:
		return errDrop
	case n < 7 && len(some) > 0:
		r := &request{kind: "unsubscribe", items: some, message: map[string]any{"action": "unsubscribe"}}
		for _, it := range some {
			list, _ := r.message[it.channel].([]string)
			r.message[it.channel] = append(list, it.ident)
		}
		return k.send(r)
	case n == 7:
		return k.send(&request{kind: "subscriptions", message: map[string]any{"action": "subscriptions"}})
	case n == 8:
		return k.resync(some)
	case n == 9:
		return k.deeper(some)
	case n == 10:
		k.choose()
		return errDrop
	}
	return nil
}

// resync requests whole books.
func (k *Client) resync(some []item) error {
	var list []string
	for _, it := range some {
		if it.channel == "order_book" {
			list = append(list, it.ident)
		}
	}
	if list == nil {
		return nil
	}
	return k.send(&request{kind: "resync", message: map[string]any{"action": "resync", "order_book": list}})
}

// deeper subscribes to a book with another depth.
func (k *Client) deeper(some []item) error {
	for _, it := range some {
		if it.channel != "order_book" {
			continue
		}
		st := k.set[it]
		delete(k.set, it)
		it.depth = map[int]int{1: 5, 5: 10, 10: 25, 25: 0, 0: 1}[it.depth]
		k.set[it] = &state{on: true, position: st.position}
		k.subscribe([]item{it})
		return nil
	}
	return nil
}

// accepted begins the series of items that were subscribed.
func (k *Client) accepted(r *request, m *stream.Message) {
	for _, it := range r.items {
		st := k.set[it]
		if st == nil {
			continue
		}
		st.on = true
		channel := it.channel
		if !replayed(channel) {
			continue
		}
		n, exact := r.resume[it]
		for _, in := range k.c.Judge.Market.Instruments {
			for _, ident := range []string{in.ID, in.ID + "|1s", in.ID + "|1m"} {
				if !matches(it.ident, ident) {
					continue
				}
				s := k.series[channel+" "+ident]
				if s == nil {
					s = &series{}
					k.series[channel+" "+ident] = s
				}
				s.now, s.exact, s.atMost = 0, 0, 0
				switch {
				case exact:
					s.exact = n + 1
				case r.position != "" && s.last > 0:
					s.atMost = s.last + 1
				case r.position == "":
					s.last = 0
				}
			}
		}
		if _, resumed := m.Resumed[channel][it.ident]; exact && !resumed && m.Lost[channel][it.ident] == (stream.Range{}) {
			k.report.Violation("resume", "%s: %s is neither resumed nor lost: %s", k.c.Name, it.ident, m.Text)
		}
	}
	k.report.Count("resumes by N", int64(len(r.resume)))
	if r.position != "" && len(r.items) > len(r.resume) {
		k.report.Count("resumes by position", 1)
	}
}
