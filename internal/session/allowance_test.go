package session_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/entitlement"
	"github.com/ruedahq/rueda/internal/session"
	"github.com/ruedahq/rueda/market"
)

// crowded returns a starter with a market of many instruments and a session whose user may send 20
// messages a second.
func crowded(t *testing.T, instruments int) *starter {
	s := newStarter(t)
	s.env.MessagesPerSecond = 20
	for i := range instruments {
		id := market.InstrumentID{Symbol: fmt.Sprintf("W%d", i), Market: "BYMA", Term: "CI"}
		if _, err := s.hub.Define(market.Instrument{ID: id, PriceDecimals: 2}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// connect starts a session of a user with a right to everything.
func (s *starter) connect(user string) {
	s.sess = new(session.Session)
	s.sess.Start(s.env, session.Peer{Identity: &session.Identity{User: user, Family: "f", Expires: s.now.Add(time.Hour), Grants: session.Grants{
		Scopes: []string{"marketdata:read", "marketdata:wildcard"}, Rights: entitlement.Set{{Market: "BYMA", Trades: true, Quotes: true}},
	}}}, s.shard, s, s.now)
	s.t.Cleanup(s.sess.PeerGone)
	s.take()
}

// refused sends pings and returns how many exceed the rate.
func (s *starter) refused(pings int) (n int) {
	s.take()
	for range pings {
		s.text(`{"action":"ping"}`)
	}
	for _, m := range s.take() {
		if strings.Contains(m, "rate_limited") {
			n++
		}
	}
	return n
}

// everything has the members of a subscribe to all sequences of all instruments of the market.
const everything = `"trades":["*|BYMA|*"],"status":["*|BYMA|*"],"bars":["*|BYMA|*|1s","*|BYMA|*|1m","*|BYMA|*|5m","*|BYMA|*|15m","*|BYMA|*|1h","*|BYMA|*|1d"]`

// TestStartsAreChargedByWidth checks that a start counts as five messages and one more for each
// 1,000 sequences, up to a burst. This includes a start that is refused after the search.
func TestStartsAreChargedByWidth(t *testing.T) {
	s := crowded(t, 4000)
	at := s.now.Add(time.Hour).UTC().Format(time.RFC3339)
	s.connect("u")
	s.text(`{"action":"subscribe","trades":["*|BYMA|*"],"status":["*|BYMA|*"],"start":"` + at + `"}`) // 5, and 8
	if n := s.refused(60); n != 13 {
		t.Errorf("%d of a burst refused after a start in 8,000 sequences, want 13", n)
	}
	s.connect("v")
	s.text(`{"action":"subscribe",` + everything + `,"start":"` + at + `"}`) // 5, and 32
	s.text(`{"action":"subscribe","trades":["GGAL|BYMA|*"],"start":"` + at + `"}`)
	if n := s.refused(60); n != 42 {
		t.Errorf("%d of a burst refused after a start in 32,000 sequences and a narrow one, want 42", n)
	}
}

// TestResumesAreChargedByWidth checks that resumes of wide patterns are free until all connections
// of a user have searched two million sequences in a minute. After that, 1,000 of them count as a
// message.
func TestResumesAreChargedByWidth(t *testing.T) {
	s := crowded(t, 10_000)
	epoch, position := s.hub.Position()
	resume := `{"action":"subscribe",` + everything + `,"resume":{"epoch":"` + epoch + `","position":"` + position + `"}}`
	const free = 2_000_000 / (8 * 10_000)
	for range free - 1 {
		s.connect("u")
		s.text(resume)
		if got := s.take(); len(got) == 0 || !strings.Contains(got[0], `"Subscribed"`) {
			t.Fatal(got)
		}
		s.sess.PeerGone()
	}
	s.connect("u")
	s.text(resume)
	if n := s.refused(60); n != 0 {
		t.Errorf("%d of a burst refused after %d resumes, want none", n, free)
	}
	s.connect("u")
	s.text(`{"action":"subscribe","trades":["*|BYMA|*"],"resume":{"epoch":"` + epoch + `","position":"` + position + `"}}`)
	if n := s.refused(60); n != 10 {
		t.Errorf("%d of a burst refused after a resume of 10,000 sequences more, want 10", n)
	}
	s.sess.PeerGone()
	s.now = s.now.Add(4 * time.Second) // a fifteenth of the minute: 133,333 sequences
	s.connect("u")
	s.text(resume)
	if n := s.refused(60); n != 0 {
		t.Errorf("%d of a burst refused after a resume four seconds later, want none", n)
	}
	s.connect("v")
	s.text(resume)
	if n := s.refused(60); n != 0 {
		t.Errorf("%d of a burst of another user refused, want none", n)
	}
}

// TestAllowanceOutlivesAConnection checks that a user who reconnects continues with the remaining
// messages, until the whole burst would be available again.
func TestAllowanceOutlivesAConnection(t *testing.T) {
	s := crowded(t, 0)
	s.connect("u")
	if n := s.refused(60); n != 0 {
		t.Fatalf("%d of the first burst refused", n)
	}
	for range 3 {
		s.sess.PeerGone()
		s.connect("u")
		if n := s.refused(30); n != 30 {
			t.Errorf("%d of 30 refused right after another connection of the user has sent a burst, want all", n)
		}
	}
	s.connect("v")
	if n := s.refused(60); n != 0 {
		t.Errorf("%d of a burst of another user refused", n)
	}
	s.now = s.now.Add(time.Second)
	s.connect("u")
	if n := s.refused(30); n != 10 {
		t.Errorf("%d of 30 refused a second later, want 10", n)
	}
	s.sess.PeerGone()
	s.now = s.now.Add(4 * time.Second)
	for _, user := range []string{"a", "b", "c", "d", "u"} {
		s.connect(user)
	}
	if n := s.refused(60); n != 0 {
		t.Errorf("%d of a burst refused when all is whole again", n)
	}
}

// TestHighRates checks rates that leave no time between two messages.
func TestHighRates(t *testing.T) {
	for _, rate := range []int{1_000_000, 1_000_000_001, 1 << 32, 1<<63 - 1} {
		s := newStarter(t)
		s.env.MessagesPerSecond = rate
		s.connect("u")
		if n := s.refused(1000); n != 0 {
			t.Errorf("%d of 1,000 messages refused at %d a second", n, rate)
		}
	}
}
