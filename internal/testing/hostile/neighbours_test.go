//go:build unix

package hostile

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ruedahq/rueda/internal/testing/hostile/neighbour"
)

// TestNeighboursE2E runs each neighbour at its cost and at ten times that, and in full as fast as
// it can with up to 10,000 sockets. It counts how often others at its address are refused: a
// logged-in user whose tokens another process minted, a new login, a refresh, and a page that sends
// its token 300 ms after the handshake. Only clients without a token in their first bytes may be
// refused, if a neighbour connects as fast as it can.
func TestNeighboursE2E(t *testing.T) {
	tries := count(200)
	levels := neighbour.Levels()
	if !full() {
		levels = levels[:2]
	}
	site := &neighbour.Site{}
	for _, name := range usernames() {
		if strings.HasPrefix(name, "user") {
			site.Users = append(site.Users, neighbour.User{Name: name, Password: passwordOf(name)})
		}
	}
	first := start(t, settings{Refreshes: 1_000_000})
	dial := func() (net.Conn, error) { return first.dial("127.38.1.1") }
	if err := site.Prepare(dial, len(neighbour.Neighbours())*len(levels)*neighbour.TokensOfTry*tries); err != nil {
		t.Fatal(err)
	}
	first.stop(t)
	a := &attacker{T: t, server: start(t, settings{Folder: first.Folder, Refreshes: 1_000_000}), network: 29, next: new(atomic.Int32)}
	for _, n := range neighbour.Neighbours() {
		for _, level := range levels {
			t.Run(n.Name+" "+level.Name, func(t *testing.T) {
				from := a.from()
				site.Dial = func() (net.Conn, error) { return a.dial(from) }
				results, rate := site.Measure(n, level, tries)
				for _, r := range results {
					t.Logf("figure: %s, %s (%.0f a second): %s refused %d of %d times %v", n.Name, level.Name, rate, r.Other, r.Total(), r.Tries, r.Refused)
				}
				for _, wrong := range n.Unexpected(level, results) {
					t.Error(wrong)
				}
			})
		}
	}
	if site.Left() != 0 && !t.Failed() {
		t.Errorf("%d tokens were not used", site.Left())
	}
}
