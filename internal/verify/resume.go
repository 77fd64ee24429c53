package verify

import "github.com/ruedahq/rueda/internal/recording"

// resume is where a stream stands that was interrupted and goes on. What was missed is sent again up to
// a CaughtUp for each subscription, and no order is promised between its channels until then: hours of
// bars may come before their trades, and the books of now before the statuses that tell of an auction.
type resume struct {
	again   bool            // the stream was interrupted: subscriptions from then on catch up
	cut     bool            // and was not subscribed since
	pending map[string]bool // subscriptions that catch up, by their id
}

// resuming says that what one channel says is not yet to be held against another.
func (v *Verifier) resuming() bool { return v.resume.cut || len(v.resume.pending) > 0 }

// resumed follows the subscriptions of a stream that was interrupted.
func (v *Verifier) resumed(m *recording.Message) {
	r := &v.resume
	if !r.again {
		return
	}
	id := m.Text("id")
	switch {
	case m.Type == "Subscription" && id != "":
		r.cut = false
		if r.pending == nil {
			r.pending = map[string]bool{}
		}
		r.pending[id] = true
	case m.Type == "CaughtUp":
		r.cut = false
		if delete(r.pending, id); len(r.pending) == 0 {
			for _, in := range v.instruments {
				in.log.bars.anew(v.received)
			}
		}
	}
}
