package session

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/wire"
)

// wanted is one identifier of a request.
type wanted struct {
	channel string // as written
	text    string // as written
	item    hub.Item
	reason  wire.Reason // why it is refused; "": it is not refused
	hint    string
}

// subscribe adds to the set of subscriptions, or replaces it.
func (r *request) subscribe(m *wire.Message) {
	req, f := m.Subscribe()
	list := r.wantedOf(&req)
	fresh := r.countNew(list)
	// Additions do not count as messages: the limit of the set bounds them.
	free := f == nil && !req.Replace && !asksStart(&req) && fresh > 0 && !r.overdrawn()
	if !free && !r.again() && !r.charge() {
		r.rejectRate()
		return
	}
	if f != nil {
		r.reject(f, nil)
		return
	}
	total := r.sub.Len() + fresh
	if req.Replace {
		total = len(list)
	}
	if most := limitsOf(r.Session).Subscriptions; total > most {
		f := wire.NewFault(wire.SubscriptionLimit, "At most "+strconv.Itoa(most)+" identifiers")
		f.Hint = fmt.Sprintf("This connection may have %d identifiers, and the request makes %d: subscribe to the others on another connection", most, total)
		r.reject(f, nil)
		r.debitFree(free)
		return
	}
	r.add(&req, list, free)
}

// asksStart reports whether a subscribe has a start.
func asksStart(req *wire.Subscribe) bool { return req.Start != 0 || req.StartOpen }

// refuse answers a subscribe that is refused as a whole. Some faults close the connection.
func (r *request) refuse(f *wire.Fault, list []wanted) {
	if f.Reason.Socket().Closes {
		r.fail(f, r.id, nil)
		return
	}
	if f.Reason == wire.Forbidden {
		for i := range list {
			list[i].reason = wire.Forbidden
		}
		r.recordDenied(list)
	}
	r.reject(f, nil)
}

// countNew returns how many identifiers of a list are not in the set, valid or not.
func (r *request) countNew(list []wanted) (n int) {
	for i := range list {
		if w := &list[i]; w.reason != "" || !r.sub.Has(w.item.Channel, w.item.ID) {
			n++
		}
		r.visit(1)
	}
	return n
}

// add subscribes to the items that the user may have, and answers. If free is set, the message
// counts only if nothing is added.
func (r *request) add(req *wire.Subscribe, list []wanted, free bool) {
	s := r.Session
	size := s.sub.Len()
	items := r.authorized(req, list)
	o := subscription.Options{
		Replace: req.Replace, NoSnapshot: !req.Snapshot, Resume: req.Resume,
		Start: subscription.Start{Time: req.Start, Open: req.StartOpen}, Today: !s.grants.has(broker.ScopeHistory),
		Found: s.postFound(), Search: r.found, Visit: r.visit,
	}
	if o.Search == nil {
		r.recordDenied(list)
	}
	r.noteUses()
	r.visit(size)
	r.chargeItems(req, list)
	if len(items) == 0 && len(list) > 0 {
		r.chargeSet(&subscription.Work{})
		r.rejectAll(list)
		r.debitFree(free)
		return
	}
	out := r.make(s.sub.BeginSubscribe(items, o))
	r.visit(s.sub.Len())
	r.added(req, list, out, len(items))
	r.debitFree(free && s.sub.Len() == size)
}

// make makes changes of the set step by step, and may pause between the steps.
func (r *request) make(changes *subscription.Request) *subscription.Outcome {
	out := changes.Outcome()
	r.work = &out.Work
	for n := r.env.pieceItems(); !changes.Step(n); {
		r.visit(n * visitsPerItem)
	}
	return out
}

// debitFree counts a message that would have been free.
func (r *request) debitFree(free bool) {
	if free {
		r.debit()
	}
}

// added answers a subscribe. asked is how many items were subscribed or rejected.
func (r *request) added(req *wire.Subscribe, list []wanted, out *subscription.Outcome, asked int) {
	s := r.Session
	r.chargeSet(&out.Work)
	if out.Search != nil {
		s.ext().check = &check{started: true, start: &start{search: out.Search}}
		return
	}
	if out.Fault != nil {
		r.refuse(out.Fault, list)
		return
	}
	markRejected(list, out.Rejected)
	if len(out.Rejected) == asked && len(list) > 0 {
		r.rejectAll(list)
		return
	}
	if req.Alive != nil {
		s.switchAlive(r.t, *req.Alive)
	}
	r.countUses()
	r.visit(s.sub.Len())
	renameAsWritten(list, out)
	ack := wire.Subscription{Msg: "Subscribed", ID: r.id, Epoch: out.Epoch, Position: out.Position, Resumed: out.Resumed}
	for c := range out.Lost {
		ack.Lost[c] = ranges(out.Lost[c])
	}
	for _, x := range out.Moved {
		ack.Moved = append(ack.Moved, wire.Moved{Channel: x.Channel.String(), Instrument: identifier(x), Delay: x.Tier.Delay})
	}
	r.acknowledgeItems(&ack, req, list)
	if (req.Resume != nil || asksStart(req)) && s.closeReason() == nil {
		id := r.id
		failed := wire.NewFault(wire.Internal, "A replay ended before it was complete; resume again")
		caughtUp := func(position string) []byte {
			return wire.AppendText(nil, wire.AppendCaughtUp(nil, id, out.Epoch, position, &out.Resumed))
		}
		s.sub.AfterReplay(subscription.ReplayEnd{
			Whole: caughtUp(out.CaughtUp), Cut: caughtUp(""), // the end of what was sent is not known
			Failed: wire.AppendText(nil, wire.AppendError(nil, failed, id, nil)),
		})
	}
}

// authorized returns the items of a list that the user may have, and marks the others.
func (r *request) authorized(req *wire.Subscribe, list []wanted) []hub.Item {
	items := make([]hub.Item, 0, len(list))
	quota := r.grants.quota(r.now)
	if !req.Replace {
		r.grants.useQuota(quota, &r.sub)
	}
	for i := range list {
		w := &list[i]
		if w.reason == "" {
			w.item.Tier.Delay, w.reason, w.hint = r.grants.authorize(quota, w.item, r.env.BookWildcards)
		}
		if w.reason == "" {
			items = append(items, w.item)
		}
		r.visit(1)
	}
	return items
}

// postFound returns a function that a search calls when it has ended.
func (s *Session) postFound() func() {
	host := s.sub.Key().(Host)
	return func() { host.Post(Event{Kind: Found}) }
}

// renameAsWritten names the bars of an outcome as the client did.
func renameAsWritten(list []wanted, out *subscription.Outcome) {
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

// unsubscribe handles an unsubscribe message: it removes the identifiers from the subscriptions and
// acknowledges. A pattern removes only the subscription to that same pattern.
func (r *request) unsubscribe(m *wire.Message) {
	req, list, ok := r.readItems(m)
	if !ok {
		return
	}
	var items []hub.Item
	kept := list[:0]
	for _, w := range list {
		if w.reason == "" && !r.sub.Has(w.item.Channel, w.item.ID) {
			continue // it is not in the set
		}
		if w.reason == "" {
			items = append(items, w.item)
		}
		kept = append(kept, w)
		r.visit(1)
	}
	r.chargeItems(&req, list)
	r.noteUses()
	r.visit(r.sub.Len())
	out := r.make(r.sub.BeginUnsubscribe(items, r.visit))
	r.visit(r.sub.Len())
	r.countUses()
	r.visit(r.sub.Len())
	r.chargeSet(&out.Work)
	r.acknowledgeOrReject("Unsubscribed", &req, kept)
}

// resync sends the snapshots of books, quotes and statuses again.
func (r *request) resync(m *wire.Message) {
	req, list, ok := r.readItems(m)
	if !ok {
		return
	}
	var items []hub.Item
	for i := range list {
		if list[i].reason == "" {
			items = append(items, list[i].item)
		}
	}
	r.chargeItems(&req, list)
	var work subscription.Work
	r.work = &work
	var rejected []subscription.Rejected
	for part := range slices.Chunk(items, 4*r.env.pieceItems()) {
		rejected = append(rejected, r.sub.Resync(part, &work)...)
		r.visit(len(part) * visitsPerItem / 4)
	}
	markRejected(list, rejected)
	r.chargeSet(&work)
	r.acknowledgeOrReject("Resynced", &req, list)
}

// subscriptions lists the whole set.
func (r *request) subscriptions(m *wire.Message) {
	if f := m.Fields(); f != nil {
		r.id = nil
		r.reject(f, nil)
		return
	}
	ack := wire.Subscription{Msg: "Subscriptions", ID: r.id}
	for c := range wire.NumChannels {
		ack.Given[c] = true
		ack.Lists[c] = identifiers(r.sub.List(c))
	}
	r.acknowledge(&ack)
	r.units += r.sub.Len() * priceIdentifier
	r.chargeSet(&subscription.Work{})
}

// readItems reads the fields of an unsubscribe or resync.
func (r *request) readItems(m *wire.Message) (wire.Subscribe, []wanted, bool) {
	req, f := m.Subscribe()
	if f != nil {
		r.reject(f, nil)
		return req, nil, false
	}
	list := r.wantedOf(&req)
	// The answer names those that are refused.
	if most := max(limitsOf(r.Session).Subscriptions, leastNamed); len(list) > most {
		f := wire.NewFault(wire.SubscriptionLimit, "At most "+strconv.Itoa(most)+" identifiers")
		f.Hint = fmt.Sprintf("The message has %d identifiers: divide it", len(list))
		r.reject(f, nil)
		return req, nil, false
	}
	return req, list, true
}

// acknowledgeOrReject acknowledges a request, or rejects it if all its items are refused.
func (r *request) acknowledgeOrReject(msg string, req *wire.Subscribe, list []wanted) {
	accepted := len(list) == 0
	for i := range list {
		accepted = accepted || list[i].reason == ""
	}
	if !accepted {
		r.rejectAll(list)
		return
	}
	r.acknowledgeItems(&wire.Subscription{Msg: msg, ID: r.id}, req, list)
}

// acknowledgeItems adds the accepted and refused items to an acknowledgement, and sends it.
func (r *request) acknowledgeItems(ack *wire.Subscription, req *wire.Subscribe, list []wanted) {
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
	r.visit(len(list)) // not after the answer, so that it is paid with it
	r.acknowledge(ack)
}

// rejectAll answers a request whose items are all refused.
func (r *request) rejectAll(list []wanted) {
	first := &wire.Fault{Reason: list[0].reason, Hint: list[0].hint}
	rejected := rejections(list)
	r.reject(first, func(b []byte) []byte { return wire.AppendRejected(b, rejected) })
}

func rejections(list []wanted) []wire.Rejection {
	all := make([]wire.Rejection, 0, countRefused(list))
	for i := range list {
		if w := &list[i]; w.reason != "" {
			all = append(all, wire.Rejection{Channel: w.channel, Instrument: w.text, Reason: w.reason, Hint: w.hint})
		}
	}
	return all
}

// countRefused returns how many identifiers of a list are refused.
func countRefused(list []wanted) (n int) {
	for i := range list {
		if list[i].reason != "" {
			n++
		}
	}
	return n
}

// wantedOf parses the identifiers of a request. Invalid ones are marked as refused.
func (r *request) wantedOf(req *wire.Subscribe) []wanted {
	n := 0
	for c := range req.Lists {
		n += len(req.Lists[c])
	}
	list := make([]wanted, 0, n)
	for c := range wire.NumChannels {
		tier := hub.Tier{}
		switch c {
		case wire.Quotes:
			tier.Conflate = req.Conflate
		case wire.OrderBook:
			tier = hub.Tier{Depth: req.Depth, Conflate: req.Conflate}
		}
		for _, text := range req.Lists[c] {
			w := wanted{channel: c.String(), text: text, item: hub.Item{Channel: c, Tier: tier}}
			var f *wire.Fault
			if w.item.ID, f = wire.ParseIdentifier(c, text); f != nil {
				w.reason, w.hint = f.Reason, "Write SYMBOL|MARKET|TERM, as in GGAL|BYMA|24hs"
			}
			list = append(list, w)
			r.visit(1)
		}
	}
	return list
}

// markRejected marks the items that the stream has rejected. Both lists have the same order.
func markRejected(list []wanted, rejected []subscription.Rejected) {
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
