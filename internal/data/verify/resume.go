package verify

import (
	"github.com/ruedahq/rueda/internal/data/recording"
	"github.com/ruedahq/rueda/wire/stream"
)

// resume is the state of a stream that was interrupted and continues. Missed messages are replayed
// up to a CaughtUp for each subscription. Until then the order between channels is not guaranteed:
// hours of bars may come before their trades, and current books before the status of an auction.
type resume struct {
	interrupted  bool            // the stream was interrupted; later subscriptions catch up
	disconnected bool            // and there was no subscription since
	pending      map[string]bool // subscriptions that are catching up, by id
}

// resuming reports whether channels cannot be compared yet.
func (v *Verifier) resuming() bool { return v.resume.disconnected || len(v.resume.pending) > 0 }

// resumed follows the subscriptions of a stream that was interrupted.
func (v *Verifier) resumed(m *stream.Message) {
	r := &v.resume
	if !r.interrupted {
		return
	}
	id := m.Control.ID
	switch {
	case m.Kind == stream.Subscription && id != "":
		r.disconnected = false
		if !recording.Resumes(m.Control) {
			return
		}
		if r.pending == nil {
			r.pending = map[string]bool{}
		}
		r.pending[id] = true
	case m.Kind == stream.CaughtUp:
		r.disconnected = false
		if delete(r.pending, id); len(r.pending) == 0 {
			for _, in := range v.instruments {
				in.log.bars.postponeAll(v.now)
			}
		}
	}
}
