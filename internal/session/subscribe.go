package session

import (
	"strconv"
	"time"

	"github.com/ruedahq/rueda/internal/stream"
	"github.com/ruedahq/rueda/wire"
)

// wanted is one identifier of a request.
type wanted struct {
	channel string // as written
	text    string // as written
	item    stream.Item
	reason  wire.Reason // why it is refused; "" it is not
	hint    string
}

// startCost is how many messages one counts as that asks for what was told since a time.
const startCost = 5

// subscribe adds to the set of subscriptions, or replaces it.
func (s *Session) subscribe(now time.Time, m *wire.Message) {
	t := s.at(now)
	req, f := m.Subscribe()
	list := s.wants(&req)
	fresh := s.count(list, false)
	// What only adds is free: the limit of the set bounds it. A start is looked for, which costs more.
	started := f == nil && (req.Start != 0 || req.StartOpen)
	free := f == nil && !req.Replace && !started && fresh > 0 && !s.overdrawn(t)
	again := s.aside != nil && s.aside.found != nil // it has been charged
	if !free && !again && !s.charge(t) {
		s.refuse(t, m.ID)
		return
	}
	if started && !again {
		for range startCost - 1 {
			s.debit(t)
		}
	}
	if f != nil {
		s.complain(t, f, m.ID)
		return
	}
	total := s.sub.Len() + fresh
	if req.Replace {
		total = s.count(list, true)
	}
	if most := int(s.maxItems); total > most {
		s.complain(t, wire.NewFault(wire.SubscriptionLimit, "At most "+strconv.Itoa(most)+" identifiers"), m.ID)
		if free {
			s.debit(t)
		}
		return
	}
	before := s.sub.Len()
	s.take(now, m.ID, &req, list)
	if free && s.sub.Len() == before {
		s.debit(t)
	}
}

// take subscribes what may be had and answers.
func (s *Session) take(now time.Time, id []byte, req *wire.Subscribe, list []wanted) {
	t := s.at(now)
	items := s.allowed(now, req, list)
	o := stream.Options{Replace: req.Replace, NoSnapshot: !req.Snapshot, Resume: req.Resume, Start: stream.Start{Time: req.Start, Open: req.StartOpen}}
	if req.Start != 0 || req.StartOpen {
		o.Search, o.Found = s.put().found, s.postFound()
	}
	if o.Search == nil {
		s.tellDenied(list)
	}
	var buf [8]Use
	before := s.uses(buf[:0])
	if len(items) == 0 && len(list) > 0 {
		s.debitWork(t, len(list), 0)
		s.refuseAll(t, id, list)
		return
	}
	out := s.sub.Subscribe(items, o)
	if o.Search == nil { // otherwise they have been charged
		s.debitSequences(t, out.Looked, o.Start != stream.Start{})
	}
	if out.Search != nil {
		s.put().check = &check{out: true, start: &start{search: out.Search}}
		return
	}
	if out.Fault != nil {
		s.complain(t, out.Fault, id)
		return
	}
	reject(list, out.Rejected)
	s.debitWork(t, out.Gone+refused(list), out.States+out.Left)
	if len(out.Rejected) == len(items) && len(list) > 0 {
		s.refuseAll(t, id, list)
		return
	}
	if req.Alive != nil {
		s.switchAlive(t, *req.Alive)
	}
	s.countUses(before)
	asWritten(list, &out)
	ack := wire.Subscription{Msg: "Subscribed", ID: id, Epoch: out.Epoch, Position: out.Position, Resumed: out.Resumed}
	for c := range out.Lost {
		ack.Lost[c] = ranges(out.Lost[c])
	}
	for _, x := range out.Moved {
		ack.Moved = append(ack.Moved, wire.Moved{Channel: x.Channel.String(), Instrument: written(x), Delay: x.Tier.Delay})
	}
	s.tell(&ack, req, list)
	if (req.Resume != nil || req.Start != 0 || req.StartOpen) && s.over() == nil {
		failed := wire.NewFault(wire.Internal, "A replay ended before it was complete; resume again")
		caughtUp := func(position string) []byte {
			return wire.AppendText(nil, wire.AppendCaughtUp(nil, id, out.Epoch, position, &out.Resumed))
		}
		s.sub.AfterReplay(stream.ReplayEnd{
			Whole: caughtUp(out.CaughtUp), Cut: caughtUp(""), // nobody knows up to where all was sent
			Failed: wire.AppendText(nil, wire.AppendError(nil, failed, id, nil)),
		})
	}
}

// allowed gives the items of a list that may be had, and marks the others.
func (s *Session) allowed(now time.Time, req *wire.Subscribe, list []wanted) []stream.Item {
	items := make([]stream.Item, 0, len(list))
	quota := s.usedQuota(now)
	if req.Replace {
		quota = s.quota(now)
	}
	for i := range list {
		w := &list[i]
		if w.reason == "" {
			w.item.Tier.Delay, w.reason, w.hint = s.authorize(quota, w.item)
		}
		if w.reason == "" {
			items = append(items, w.item)
		}
	}
	return items
}

// postFound is what a search calls when it has ended.
func (s *Session) postFound() func() {
	host := s.sub.Key().(Host)
	return func() { host.Post(Notice{Kind: Found}) }
}

// asWritten names the bars that an outcome tells of as the client did.
func asWritten(list []wanted, out *stream.Outcome) {
	for i := range list {
		w := &list[i]
		if _, bars := w.item.Channel.Interval(); !bars || w.reason != "" {
			continue
		}
		c, id := w.item.Channel, w.item.ID.String()
		if n, ok := out.Resumed[c][id]; ok {
			delete(out.Resumed[c], id)
			out.Resumed[c][w.text] = n
		}
		if l, ok := out.Lost[c][id]; ok {
			delete(out.Lost[c], id)
			out.Lost[c][w.text] = l
		}
	}
}

func ranges(lost map[string]stream.Lost) map[string]wire.Range {
	if len(lost) == 0 {
		return nil
	}
	all := make(map[string]wire.Range, len(lost))
	for name, l := range lost {
		all[name] = wire.Range(l)
	}
	return all
}

// unsubscribe removes identifiers as they were written.
func (s *Session) unsubscribe(now time.Time, m *wire.Message) {
	req, list, ok := s.request(now, m)
	if !ok {
		return
	}
	var items []stream.Item
	kept := list[:0]
	for _, w := range list {
		if w.reason == "" && !s.sub.Has(w.item.Channel, w.item.ID) {
			continue // nothing to do, and nothing to tell
		}
		if w.reason == "" {
			items = append(items, w.item)
		}
		kept = append(kept, w)
	}
	if len(items) > 0 {
		var buf [8]Use
		before := s.uses(buf[:0])
		s.debitWork(s.at(now), len(items), s.sub.Unsubscribe(items))
		s.countUses(before)
	}
	s.answer(now, "Unsubscribed", m.ID, &req, kept)
}

// resync has the state of books, quotes and statuses sent again.
func (s *Session) resync(now time.Time, m *wire.Message) {
	req, list, ok := s.request(now, m)
	if !ok {
		return
	}
	var items []stream.Item
	for i := range list {
		if list[i].reason == "" {
			items = append(items, list[i].item)
		}
	}
	states, rejected := s.sub.Resync(items)
	reject(list, rejected)
	s.debitWork(s.at(now), 0, states)
	s.answer(now, "Resynced", m.ID, &req, list)
}

// subscriptions lists the whole set.
func (s *Session) subscriptions(now time.Time, m *wire.Message) {
	if f := m.Fields(); f != nil {
		s.complain(s.at(now), f, nil)
		return
	}
	ack := wire.Subscription{Msg: "Subscriptions", ID: m.ID}
	for c := range wire.NumChannels {
		ack.Given[c] = true
		ack.Lists[c] = identifiers(s.sub.List(c))
	}
	s.acknowledge(&ack)
}

// request reads the fields of an unsubscribe or resync.
func (s *Session) request(now time.Time, m *wire.Message) (wire.Subscribe, []wanted, bool) {
	req, f := m.Subscribe()
	if f != nil {
		s.complain(s.at(now), f, m.ID)
		return req, nil, false
	}
	return req, s.wants(&req), true
}

// answer acknowledges a request, or refuses it where nothing of it is good.
func (s *Session) answer(now time.Time, msg string, id []byte, req *wire.Subscribe, list []wanted) {
	good := len(list) == 0
	for i := range list {
		good = good || list[i].reason == ""
	}
	if !good {
		s.refuseAll(s.at(now), id, list)
		return
	}
	s.tell(&wire.Subscription{Msg: msg, ID: id}, req, list)
}

// tell completes an acknowledgement with what was taken and refused, and sends it.
func (s *Session) tell(ack *wire.Subscription, req *wire.Subscribe, list []wanted) {
	ack.Given = req.Given
	for i := range list {
		w := &list[i]
		if w.reason != "" {
			continue
		}
		c := w.item.Channel
		ack.Lists[c] = append(ack.Lists[c], w.text)
		if _, bars := c.Interval(); bars && w.text == w.item.ID.String() {
			ack.Interval = req.Interval.String()
		}
	}
	ack.Rejected = rejections(list)
	s.acknowledge(ack)
}

// acknowledge fills in where the stream is and what the channels cover.
func (s *Session) acknowledge(ack *wire.Subscription) {
	if ack.Epoch == "" {
		ack.Epoch, ack.Position = s.sub.Position()
	}
	for c := range wire.NumChannels {
		if ack.Given[c] {
			ack.Count[c] = s.sub.Count(c)
		}
	}
	// What the stream had gathered for a change of the set is of before it, and so
	// goes before what is told of it.
	a := s.put()
	if s.format == wire.JSON && a.trouble == nil {
		a.control = s.sub.TakeCarry(a.control)
	} else {
		a.control = s.sub.Transcode(a.control, a.trouble.spoil(s.sub.TakeCarry(nil)), s.format)
	}
	s.send(wire.AppendSubscription(s.sub.Scratch(), ack))
}

// refuseAll answers a request of which nothing is good.
func (s *Session) refuseAll(t moment, id []byte, list []wanted) {
	first := &wire.Fault{Reason: list[0].reason, Hint: list[0].hint}
	s.complainWith(t, first, id, wire.AppendRejected(nil, rejections(list)))
}

func rejections(list []wanted) []wire.Rejection {
	all := make([]wire.Rejection, 0, refused(list))
	for i := range list {
		if w := &list[i]; w.reason != "" {
			all = append(all, wire.Rejection{Channel: w.channel, Instrument: w.text, Reason: w.reason, Hint: w.hint})
		}
	}
	return all
}

// wants reads the identifiers of a request. Those that are none are marked as refused.
func (s *Session) wants(req *wire.Subscribe) []wanted {
	n := 0
	for c := range req.Lists {
		n += len(req.Lists[c])
	}
	list := make([]wanted, 0, n)
	for c := range wire.NumChannels {
		tier := stream.Tier{}
		switch c {
		case wire.Quotes:
			tier.Conflate = req.Conflate
		case wire.OrderBook:
			tier = stream.Tier{Depth: req.Depth, Conflate: req.Conflate}
		}
		for _, text := range req.Lists[c] {
			w := wanted{channel: c.String(), text: text, item: stream.Item{Channel: c, Tier: tier}}
			var f *wire.Fault
			if w.item.ID, f = wire.ParseIdentifier(c, text); f != nil {
				w.reason, w.hint = f.Reason, "Write SYMBOL|MARKET|TERM, as in GGAL|BYMA|24hs"
			}
			list = append(list, w)
		}
	}
	return list
}

// count is how many identifiers of a list would be new in the set, or with all how
// many there are, good or not.
func (s *Session) count(list []wanted, all bool) int {
	if all {
		return len(list)
	}
	n := 0
	for i := range list {
		if w := &list[i]; w.reason != "" || !s.sub.Has(w.item.Channel, w.item.ID) {
			n++
		}
	}
	return n
}

// refused is how many identifiers of a list are refused.
func refused(list []wanted) (n int) {
	for i := range list {
		if list[i].reason != "" {
			n++
		}
	}
	return n
}

// reject marks what the stream did not take. Both lists are in the same order.
func reject(list []wanted, rejected []stream.Rejected) {
	at := 0
	for _, r := range rejected {
		for ; at < len(list); at++ {
			if w := &list[at]; w.reason == "" && w.item == r.Item {
				w.reason, w.hint = r.Reason, r.Hint
				break
			}
		}
	}
}
