package marketdata

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/market"
)

// patienceWithSilence is the time without data after which watch explains the silence.
const patienceWithSilence = 15 * time.Second

// silence finds out when nothing has come for a while, and why. It is safe for concurrent use.
type silence struct {
	mu       sync.Mutex
	since    time.Time // of the newest data, or of the connection; zero: not connected
	reported bool
	clock    bool // the clock of this machine was reported
}

// event notes an event. After a silence that was reported, it returns what to report.
func (s *silence) event(ev client.Event, now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	change, isChange := ev.(client.StateChange)
	_, isData := ev.(interface{ Raw() []byte })
	switch {
	case isChange && change.State == client.Live:
		s.since, s.reported = now, false
	case isChange:
		s.since = time.Time{}
	case isData:
		before, reported := s.since, s.reported
		s.since, s.reported = now, false
		if reported && !before.IsZero() {
			return fmt.Sprintf("data again after %s", now.Sub(before).Round(time.Second))
		}
	}
	return ""
}

// check returns what to report if nothing has come for too long, once for each silence.
func (s *silence) check(h client.Health, now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() || s.reported || now.Sub(s.since) < patienceWithSilence {
		return ""
	}
	s.reported = true
	return fmt.Sprintf("nothing for %s: %s", now.Sub(s.since).Round(time.Second), cause(&h))
}

// maxClockOffset is the difference of clocks that watch reports, besides the round trip by which it
// is uncertain.
const maxClockOffset = 2 * time.Second

// checkClock returns what to report, once, if the clock of this machine is off.
func (s *silence) checkClock(h client.Health) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	off := h.ClockOffset.Abs()
	if s.clock || h.RoundTrip == 0 || off < maxClockOffset+h.RoundTrip {
		return ""
	}
	s.clock = true
	word := "ahead of"
	if h.ClockOffset > 0 {
		word = "behind"
	}
	return fmt.Sprintf("the clock of this machine is %s %s that of the gateway, whose times are shown: synchronise it (NTP)", off.Round(100*time.Millisecond), word)
}

// cause returns why nothing comes, as far as the client knows.
func cause(h *client.Health) string {
	phases := map[market.Phase]bool{}
	for _, in := range h.Instruments {
		phases[in.Phase] = true
	}
	delete(phases, market.NoPhase)
	switch {
	case len(h.Down) > 0:
		return "the feed of " + strings.Join(h.Down, ", ") + " is down"
	case h.Link > patienceWithSilence:
		return "the connection is silent too, and may be broken"
	case h.Stream > patienceWithSilence+2*time.Second:
		return "the connection is alive, but the gateway has stopped the stream"
	case len(phases) == 1 && !phases[market.Open]:
		for phase := range phases {
			return "the connection is alive, and the trading status is " + phase.String()
		}
	}
	return "the connection is alive, and the feed sends nothing for these instruments"
}
