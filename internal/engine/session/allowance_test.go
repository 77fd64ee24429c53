package session_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/entitlement"
	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
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

// identity returns a user with a right to everything but books.
func (s *starter) identity(user string) *session.Identity {
	return &session.Identity{User: user, Family: "f", Expires: s.now.Add(time.Hour), Grants: session.Grants{
		Scopes: []string{"marketdata:read", "marketdata:wildcard"}, Rights: entitlement.Set{{Market: "BYMA", Trades: true, Quotes: true}},
	}}
}

// connect starts a session of a user with a right to everything.
func (s *starter) connect(user string) {
	s.sess = new(session.Session)
	s.sess.Start(s.env, session.Peer{Identity: s.identity(user)}, s.shard, s, s.now)
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

// owed returns how many units of work of a user have not recovered.
func (s *starter) owed(user string) int { return s.env.Owed(user, s.now) }

// TestWorkBelongsToTheUser checks that all connections of a user share one allowance of work. In
// debt, messages with work are refused on each of them until the debt has recovered. Pings, pongs
// and tokens are answered, and so are other users.
func TestWorkBelongsToTheUser(t *testing.T) {
	s := crowded(t, 1000)
	s.env.MessagesPerSecond, s.env.Refusals = 1_000_000, 1_000_000
	s.env.Known = func(string) (*session.Identity, *wire.Fault, bool) { return s.identity("u"), nil, true }
	s.connect("u")
	s.env.Spend("u", s.now, session.WorkBurst-10)
	s.text(`{"action":"subscribe","quotes":["*|BYMA|*"],"status":["*|BYMA|*"]}`)
	if got := s.take(); !strings.Contains(got[0], `"Subscribed"`) || s.owed("u") <= session.WorkBurst {
		t.Fatalf("%.100q, and the user owes %d", got, s.owed("u"))
	}
	s.connect("u")
	debt := s.owed("u") - session.WorkBurst
	wait := (debt + session.WorkPerSecond - 1) / session.WorkPerSecond
	for _, msg := range []string{
		`{"action":"subscribe","id":1,"trades":["GGAL|BYMA|24hs"]}`, `{"action":"unsubscribe","id":1,"trades":[]}`,
		`{"action":"resync","id":1,"quotes":[]}`, `{"action":"subscriptions","id":1}`,
		`{"action":"ping","id":1,"x":[` + strings.Repeat("0,", 100) + `0]}`,
	} {
		s.text(msg)
		want := fmt.Sprintf(`"reason":"rate_limited","msg":"Too many messages","id":1,"retry":true,"retry_after":%d}`, wait)
		if got := s.take(); len(got) != 1 || !strings.HasSuffix(got[0], want) {
			t.Errorf("%.40s: got %q, want %s", msg, got, want)
		}
	}
	for msg, want := range map[string]string{
		`{"action":"ping"}`: `"pong"`, `{"action":"auth_token","token":"` + strings.Repeat("x", 1000) + `"}`: `"Success"`,
		`{"action":"nothing"}`: `"unknown_action"`, `{"action":"pong","x":1}`: "",
	} {
		s.text(msg)
		if got := strings.Join(s.take(), " "); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: got %q, want %s", msg, got, want)
		}
	}
	subscribe := `{"action":"subscribe","trades":["GGAL|BYMA|24hs"]}`
	s.connect("v")
	if s.text(subscribe); !strings.Contains(s.take()[0], `"Subscribed"`) {
		t.Error("another user is refused")
	}
	s.sess.PeerGone()
	debt = s.owed("u") - session.WorkBurst
	s.now = s.now.Add(time.Duration(debt)*(time.Second/session.WorkPerSecond) - 1)
	s.connect("u")
	if s.text(subscribe); !strings.Contains(s.take()[0], `"rate_limited"`) {
		t.Error("admitted in debt, after the connections have ended")
	}
	s.now = s.now.Add(time.Millisecond)
	if s.text(subscribe); !strings.Contains(s.take()[0], `"Subscribed"`) {
		t.Error("refused after the debt has recovered")
	}
}

// TestWorkIsForgotten checks that the registry records no allowance that is whole.
func TestWorkIsForgotten(t *testing.T) {
	s := crowded(t, 0)
	for i := range 1000 {
		s.connect(fmt.Sprintf("u%d", i))
		s.text(`{"action":"subscribe","trades":["GGAL|BYMA|24hs"]}`)
		s.take()
		s.sess.PeerGone()
		s.now = s.now.Add(time.Second)
	}
	if n := s.env.Registry.Debts(); n > 10 {
		t.Errorf("%d debts are recorded", n)
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
