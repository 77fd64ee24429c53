package main

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/testing/hostile/neighbour"
)

// TestNeighboursAcrossNodesE2E runs each neighbour at one edge, where others at its address use
// tokens of the other edge. Only clients without a token in their first bytes may be refused, if a
// neighbour connects as fast as it can, which is tried in full only.
func TestNeighboursAcrossNodesE2E(t *testing.T) {
	tries, levels := 5, neighbour.Levels()[1:2]
	if os.Getenv("RUEDA_SOAK") != "" {
		tries, levels = 200, neighbour.Levels()
	}
	const users = 40
	r := startRig(t, rigOptions{nats: 1, edges: 2, postgres: true, clients: users * clientsOfBot, speed: 0.1, limits: true})
	address := byte(1) // another one for each neighbour at each level
	dial := func(p *process) func() (net.Conn, error) {
		return func() (net.Conn, error) {
			d := net.Dialer{Timeout: time.Minute, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 29, 0, address)}}
			return d.DialContext(t.Context(), "tcp", p.address)
		}
	}
	site := &neighbour.Site{Dial: dial(r.edges[0]), Mint: dial(r.edges[1])}
	for i := range users {
		site.Users = append(site.Users, neighbour.User{Name: botName(i), Password: botSecret})
	}
	if err := site.Prepare(site.Mint, len(neighbour.Neighbours())*len(levels)*neighbour.TokensOfTry*tries); err != nil {
		t.Fatal(err)
	}
	for _, n := range neighbour.Neighbours() {
		for _, level := range levels {
			address++
			t.Run(n.Name+" "+level.Name, func(t *testing.T) {
				results, rate := site.Measure(n, level, tries)
				for _, x := range results {
					t.Logf("figure: %s, %s (%.0f a second): %s refused %d of %d times %v", n.Name, level.Name, rate, x.Other, x.Total(), x.Tries, x.Refused)
				}
				for _, wrong := range n.Unexpected(level, results) {
					t.Error(wrong)
				}
			})
		}
	}
}
