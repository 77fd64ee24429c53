package session_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// publish publishes quotes of GGAL|BYMA|CI, with sizes 2, 4, 7, 11, ..., then trades.
func (d *drive) publish(quotes, trades int) {
	d.t.Helper()
	id := market.InstrumentID{Symbol: "GGAL", Market: "BYMA", Term: "CI"}
	h, err := d.world.Hub.Define(market.Instrument{ID: id, QuotesFromFeed: true, StartsEmpty: true})
	if err != nil {
		d.t.Fatal(err)
	}
	level := market.Level{Price: 7050 * market.Scale, Size: market.Scale}
	for i := range quotes {
		level.Size += market.Size(i+1) * market.Scale
		q := market.Event{Kind: market.KindQuote, Handle: h, Bids: []market.Level{level}}
		if err := d.world.Hub.Publish([]market.Event{q}); err != nil {
			d.t.Fatal(err)
		}
	}
	for range trades {
		e := market.Event{Kind: market.KindTrade, Handle: h, Price: level.Price, Size: level.Size}
		if err := d.world.Hub.Publish([]market.Event{e}); err != nil {
			d.t.Fatal(err)
		}
	}
	d.turn()
}

// follow returns a session that follows quotes and trades of GGAL|BYMA|CI.
func follow(t *testing.T, options string) *drive {
	t.Helper()
	d := newDrive(t, "demo")
	d.text(`{"action":"subscribe","quotes":["GGAL|BYMA|CI"],"trades":["GGAL|BYMA|CI"],"snapshot":false` + options + `}`)
	d.want("Subscription")
	return d
}

// some gathers about max bytes, which do not reach the kernel.
func (d *drive) some(max int) ([]string, int) {
	d.t.Helper()
	b := d.sess.Output(d.now, nil, max)
	d.sess.Sent(d.now, len(b), 0)
	texts, err := unpack(b, wire.JSON)
	if err != nil {
		d.t.Fatal(err)
	}
	d.received(texts)
	return texts, len(b)
}

// TestTrickle has a kernel that accepts a byte from time to time. The client is slow but not
// stalled, and gets one ping instead of one every 20 s.
func TestTrickle(t *testing.T) {
	d := follow(t, "")
	d.publish(1, 0)
	_, n := d.gather()
	for range 5 {
		d.pass(20 * time.Second)
		d.sess.Wrote(d.now, 1)
		n--
	}
	if _, _, over := d.sess.Close(); over {
		t.Fatal("closed")
	}
	d.sess.Wrote(d.now, n)
	texts := d.take()
	if got := strings.Count(strings.Join(texts, "\n"), `{"action":"ping"}`); got != 1 {
		t.Errorf("%d pings waited: %q", got, texts)
	}
	d.text(`{"action":"pong"}`)
	d.publish(2, 0)
	d.gather()
	d.pass(30 * time.Second)
	d.over(4507, "slow_client")
}

// TestComesToRest has the stream announce data that is not for this subscriber. The session stops
// looking for it.
func TestComesToRest(t *testing.T) {
	d := newDrive(t, "demo")
	d.text(`{"action":"subscribe","quotes":["GGAL|BYMA|CI"],"conflate":"1s","snapshot":false}`)
	d.text(`{"action":"subscribe","quotes":["*|BYMA|CI"],"snapshot":false}`)
	_, n := d.gather()
	d.publish(1, 0)
	if !d.sess.Pending() {
		t.Fatal("nothing was announced")
	}
	d.sess.Wrote(d.now, n)
	d.want()
	d.pass(time.Second)
	if next := d.sess.Deadline().Sub(d.now); next < 10*time.Second {
		t.Errorf("the next deadline is %v away", next)
	}
}

// TestAliveWaits checks that an Alive mark that is due while data is pending is sent after the
// data.
func TestAliveWaits(t *testing.T) {
	d := follow(t, `,"alive":true`)
	d.pass(15 * time.Second)
	d.publish(0, 3)
	for i := range 3 {
		texts, n := d.some(10)
		if len(texts) != 1+i/2 || !strings.Contains(texts[0], `"type":"T"`) {
			t.Fatalf("got %q", texts)
		}
		if i == 2 && !strings.Contains(texts[1], `"type":"Alive"`) {
			t.Errorf("got %q", texts)
		}
		d.sess.Wrote(d.now, n)
	}
	d.want()
}

// TestReplayIsNotSlow delays the replay of a resume and checks that this alone causes no warning.
func TestReplayIsNotSlow(t *testing.T) {
	d := newDrive(t, "demo")
	d.publish(0, 50)
	d.text(`{"action":"subscribe","trades":["GGAL|BYMA|CI"],"resume":{"epoch":"e1","trades":{"GGAL|BYMA|CI":0}}}`)
	_, n := d.some(1000)
	d.pass(10 * time.Second)
	d.sess.Wrote(d.now, n)
	texts := d.take()
	if got := strings.Join(texts, "\n"); strings.Contains(got, "Warning") || !strings.Contains(texts[len(texts)-1], "CaughtUp") {
		t.Errorf("got %q", texts)
	}
}

// TestAgeSurvivesClockSteps sets the clock forward while a trade is pending. This does not count as
// its age.
func TestAgeSurvivesClockSteps(t *testing.T) {
	d := follow(t, "")
	d.publish(0, 1)
	_, n := d.gather()
	d.publish(0, 1)
	d.now = d.now.Add(300 * time.Millisecond)
	d.sess.Handle(stepWall(d.now, time.Hour), session.Event{Kind: session.Timer})
	d.sess.Wrote(d.now, n)
	d.want(`"type":"Warning"`, `"type":"T"`)
}

// TestSlowByBytes exceeds the limit of pending bytes although no message is old.
func TestSlowByBytes(t *testing.T) {
	d := follow(t, "")
	d.world.Env.MaxWaiting = 300
	d.publish(1, 0)
	_, n := d.gather()
	d.now = d.now.Add(200 * time.Millisecond)
	d.publish(2, 0)
	d.sess.Wrote(d.now, n)
	_, n = d.gather()
	d.publish(5, 0)
	d.now = d.now.Add(50 * time.Millisecond)
	d.sess.Handle(stepWall(d.now, -time.Second), session.Event{Kind: session.Timer}) // so that no quote looks older than it is
	d.sess.Wrote(d.now, n)
	d.want(`"type":"Warning"`, `"type":"Q"`)
}

// TestExtendNeverShortens checks that a refresh whose token ends before the session's own is
// ignored.
func TestExtendNeverShortens(t *testing.T) {
	d := newDrive(t, "demo")
	d.sess.Handle(d.now, session.Event{Kind: session.Extended, Family: "f1", Expires: d.now.Add(time.Second)})
	d.sess.Handle(d.now.Add(time.Minute/2), session.Event{Kind: session.Timer})
	d.want(`"action":"ping"`)
	if _, _, over := d.sess.Close(); over {
		t.Error("closed")
	}
}

// another returns another session of the same world and shard, with the same subscriptions.
func (d *drive) another() *drive {
	d.t.Helper()
	id, _ := d.world.Env.Verify(d.t.Context(), "demo")
	e := &drive{t: d.t, world: d.world, now: d.now, shard: d.shard, sess: new(session.Session)}
	e.sess.Start(d.world.Env, session.Peer{Identity: id}, e.shard, e, e.now)
	d.t.Cleanup(e.sess.PeerGone)
	e.want(`"type":"Success"`)
	e.text(`{"action":"subscribe","quotes":["GGAL|BYMA|CI"],"trades":["GGAL|BYMA|CI"],"snapshot":false}`)
	e.want("Subscription")
	return e
}

// TestBacklogOfAll exceeds the limit of all backlogs together. The connection with the largest
// backlog is closed, the other is not.
func TestBacklogOfAll(t *testing.T) {
	d := follow(t, "")
	e := d.another()
	d.world.Env.MaxBacklog = 2800
	d.world.Env.MaxAge = time.Minute
	d.publish(0, 1)
	_, n := d.gather()
	if _, m := e.gather(); m == 0 || n == 0 {
		t.Fatal("nothing to hold up")
	}
	d.publish(0, 20)
	d.sess.Wrote(d.now, n)
	e.sess.Wrote(e.now, n)
	if _, m := d.some(4000); m < 2000 {
		t.Fatalf("%d bytes more", m)
	}
	if _, m := e.some(1000); m == 0 || m > 1200 { // takes what it is given, slowly
		t.Fatalf("%d bytes more", m)
	}
	d.pass(time.Second)
	e.pass(time.Second)
	d.pass(time.Second)
	d.over(4507, "slow_client")
	if _, _, over := e.sess.Close(); over {
		t.Error("the lesser laggard was cut too")
	}
	d.sess.PeerGone()
	d.publish(0, 1)
	e.pass(time.Second)
	if _, _, over := e.sess.Close(); over {
		t.Error("what the first held was not given back")
	}
}

// TestFullOfPongs fills a socket with frames of the host. The client is slow and is closed, as for
// a socket that is full of data.
func TestFullOfPongs(t *testing.T) {
	d := follow(t, "")
	d.sess.HostUnsent(d.now, 500)
	d.publish(0, 1)
	d.pass(time.Second)
	d.sess.HostUnsent(d.now, 400)
	d.pass(29 * time.Second)
	d.over(4507, "slow_client")
	e := follow(t, "")
	e.sess.HostUnsent(e.now, 500)
	e.pass(29 * time.Second)
	e.sess.HostUnsent(e.now, 0)
	e.pass(time.Second)
	if _, _, over := e.sess.Close(); over {
		t.Error("closed although all was taken")
	}
}

// TestSharedBacklogCountsOnce has clients behind one proxy that stalls for a moment. They share
// their backlog, and all are within their limits, so none is closed.
func TestSharedBacklogCountsOnce(t *testing.T) {
	d := follow(t, "")
	d.world.Env.MaxBacklog = 1 << 20
	d.world.Env.Connections = 5000
	list := make([]*drive, 300)
	for i := range list {
		list[i] = d.another()
	}
	d.publish(0, 1)
	for _, e := range list {
		if _, n := e.some(64 << 10); n == 0 {
			t.Fatal("nothing to hold up")
		}
	}
	d.publish(0, 500) // 75 KB in one ring
	for range 6 {
		for _, e := range list {
			e.pass(250 * time.Millisecond)
		}
	}
	for i, e := range list {
		if _, reason, over := e.sess.Close(); over {
			t.Fatalf("client %d was closed: %s", i, reason)
		}
	}
}
