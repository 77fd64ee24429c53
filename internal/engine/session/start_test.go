package session_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/entitlement"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/market"
)

// starter is a session on a hub with a journal. Its searches end when the test runs the hub.
type starter struct {
	*drive
	hub   *hub.Hub
	done  chan session.Event
	woken chan struct{}
	env   *session.Env
}

// Post queues an event; any goroutine may call it.
func (s *starter) Post(n session.Event) {
	if n.Kind == session.NextPiece {
		s.drive.Post(n)
		return
	}
	s.done <- n
}

func newStarter(t *testing.T) *starter {
	j, err := journal.Open(t.Context(), journal.Config{Folder: t.TempDir(), BootID: "same"})
	if err != nil {
		t.Fatal(err)
	}
	s := &starter{hub: hub.New(hub.Config{Journal: j, TradesKept: 1}), done: make(chan session.Event, 1000), woken: make(chan struct{}, 1)}
	if err := s.hub.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	var hd market.Handle
	for _, symbol := range []string{"AL30", "GGAL"} {
		if hd, err = s.hub.Define(market.Instrument{ID: market.InstrumentID{Symbol: symbol, Market: "BYMA", Term: "24hs"}, StartsEmpty: true}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2000 {
		if err := s.hub.Publish([]market.Event{{Kind: market.KindTrade, Handle: hd, Price: market.Scale, Size: market.Scale}}); err != nil {
			t.Fatal(err)
		}
	}
	s.hub.Commit()
	var run sync.WaitGroup
	run.Go(func() { _ = s.hub.Run(t.Context()) })
	t.Cleanup(func() {
		run.Wait()
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	s.drive = &drive{t: t, now: time.Now(), shard: subscription.NewShard(s.hub, func(bool) {
		select {
		case s.woken <- struct{}{}:
		default:
		}
	})}
	s.env = &session.Env{Registry: &session.Registry{}, Version: "test", Origin: s.now, MessagesPerSecond: 1000}
	return s
}

func (s *starter) begin() {
	id := &session.Identity{User: "u", Family: "f", Expires: s.now.Add(time.Hour), Grants: session.Grants{
		Scopes: []string{"marketdata:read", "marketdata:history"}, Rights: entitlement.Set{{Market: "BYMA", Trades: true, Quotes: true}},
	}}
	s.sess = new(session.Session)
	s.sess.Start(s.env, session.Peer{Identity: id}, s.shard, s, s.now)
	s.t.Cleanup(s.sess.PeerGone)
	s.take()
}

// look requests a start that is in the journal. Before Run has begun, the call itself finds it;
// then another session requests it.
func (s *starter) look() {
	s.t.Helper()
	for s.begin(); ; s.begin() {
		if s.text(startOfGGAL); s.sess.Busy() {
			return
		}
		s.sess.PeerGone()
	}
}

const startOfGGAL = `{"action":"subscribe","id":1,"trades":["GGAL|BYMA|24hs"],"start":"2020-01-01T00:00:00Z"}`

// TestMessagesBehindAStart checks that data of other subscriptions continues during the search for
// a start. Later requests are answered after it: acknowledgement, replay, and then the others in
// their order.
func TestMessagesBehindAStart(t *testing.T) {
	s := newStarter(t)
	s.look()
	s.text(`{"action":"ping","id":2}`)
	s.text(`{"action":"unsubscribe","id":3,"trades":["GGAL|BYMA|24hs"]}`)
	s.text(`{"action":"subscribe","id":4,"quotes":["AL30|BYMA|24hs"]}`)
	if got := s.take(); len(got) > 0 {
		t.Errorf("answered before: %q", got)
	}
	s.sess.Handle(s.now, <-s.done)
	if s.sess.Busy() {
		t.Error("busy still")
	}
	got := strings.Join(s.take(), "\n")
	last := -1
	for _, part := range []string{`"msg":"Subscribed","id":1,`, `"action":"pong","id":2,`, `"msg":"Unsubscribed","id":3,`, `"msg":"Subscribed","id":4,`} {
		at := strings.Index(got, part)
		if at <= last {
			t.Errorf("%s is at %d, behind %d, in %s", part, at, last, got)
		}
		last = at
	}
}

// TestReplayFromAStart checks that the acknowledgement, every row and CaughtUp arrive in that
// order, whatever is sent meanwhile.
func TestReplayFromAStart(t *testing.T) {
	s := newStarter(t)
	s.look()
	s.sess.Handle(s.now, session.Event{Kind: session.Found}) // one of before: nothing has been found yet, or all of it
	if s.sess.Busy() {
		s.sess.Handle(s.now, <-s.done)
	}
	var got []string
	for len(got) == 0 || !strings.HasPrefix(got[len(got)-1], `{"type":"CaughtUp"`) {
		list := s.take()
		if got = append(got, list...); len(list) == 0 {
			<-s.woken
		}
	}
	if len(got) != 2002 || !strings.Contains(got[0], `"msg":"Subscribed"`) || !strings.Contains(got[1], `"N":1,`) || !strings.Contains(got[2000], `"N":2000,`) {
		t.Errorf("%d messages, from %s", len(got), got[0])
	}
}

// TestLeaveDuringStartSearch checks that a session that is closed during the search does not
// answer afterwards.
func TestLeaveDuringStartSearch(t *testing.T) {
	s := newStarter(t)
	for _, leave := range []func(*starter){
		func(s *starter) { s.sess.PeerGone() },
		func(s *starter) { s.sess.Handle(s.now, session.Event{Kind: session.Revoked}) },
	} {
		s.look()
		s.text(`{"action":"subscriptions","id":2}`)
		leave(s)
		s.sess.Handle(s.now, session.Event{Kind: session.Found})
		for _, text := range s.take() {
			if strings.Contains(text, "Subscri") {
				t.Errorf("got %s", text)
			}
		}
	}
}
