package neighbour

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Site is an address that clients share, and the gateway to which they connect.
type Site struct {
	// Dial connects from the address.
	Dial func() (net.Conn, error)
	// Mint connects to another node of the gateway; nil: there is none. Logins and every second
	// refresh are made there, so that the tokens used at the first node are of the second.
	Mint func() (net.Conn, error)
	// Users log in and refresh in turn.
	Users []User

	minted chan string // access tokens
	chains []tokens    // logins of Users
}

// User is a user who can log in.
type User struct{ Name, Password string }

// Level is how often a neighbour does what it does.
type Level struct {
	Name  string
	Times int // of its rate; 0: as often as a process with 10,000 sockets can
}

// Levels returns the levels, the harmless ones first.
func Levels() []Level {
	return []Level{{"at its cost", 1}, {"at ten times that", 10}, {"as fast as it can", 0}}
}

// TokensOfTry is how many of the tokens of Prepare one try of all others uses.
const TokensOfTry = 3

// Prepare logs the users in through dial, and gets n access tokens by refreshes. Tokens of an
// earlier process are new to the one that Measure uses.
func (s *Site) Prepare(dial func() (net.Conn, error), n int) error {
	s.minted, s.chains = make(chan string, n), make([]tokens, len(s.Users))
	for i := range s.chains {
		var refused string
		if s.chains[i], refused = login(dial, s.Users[i]); refused != "" {
			return errors.New("login: " + refused)
		}
	}
	for i := range n {
		next, refused := refresh(dial, s.chains[i%len(s.chains)].Refresh)
		if refused != "" {
			return errors.New("refresh: " + refused)
		}
		s.chains[i%len(s.chains)] = next
		s.minted <- next.Access
	}
	return nil
}

// Left returns how many of the tokens of Prepare were not used.
func (s *Site) Left() int { return len(s.minted) }

// Result is what happened to one of the others.
type Result struct {
	Other   string
	Tries   int
	Refused map[string]int // how, and how often
}

// Total returns how often it was refused.
func (r *Result) Total() (n int) {
	for _, k := range r.Refused {
		n += k
	}
	return n
}

// Measure runs a neighbour at a level while each of the others makes so many tries. rate is what
// the neighbour did in a second.
func (s *Site) Measure(n Neighbour, level Level, tries int) (results []Result, rate float64) {
	workers := 8
	if n.Rate *= level.Times; level.Times == 0 {
		n.Rate, workers = 1_000_000, 64
		n.Holds = min(n.Holds, 1) * 10_000
	}
	stop, ready := make(chan struct{}), make(chan struct{})
	var sent atomic.Int64
	var running, all sync.WaitGroup
	running.Go(func() { n.run(s, workers, stop, &sent, ready) })
	<-ready
	began, before := time.Now(), sent.Load()
	others := s.others()
	results = make([]Result, len(others))
	for i, o := range others {
		results[i] = Result{o.name, tries, map[string]int{}}
		all.Go(func() {
			for k := range tries {
				if refused := o.try(k); refused != "" {
					results[i].Refused[refused]++
				}
			}
		})
	}
	all.Wait()
	rate = float64(sent.Load()-before) / time.Since(began).Seconds()
	close(stop)
	running.Wait()
	return results, rate
}

// Unexpected returns the results of others that a neighbour may not cost anything at a level.
func (n *Neighbour) Unexpected(level Level, results []Result) (wrong []string) {
	for _, r := range results {
		if r.Total() > 0 && (level.Times != 0 || !slices.Contains(n.Costs, r.Other)) {
			wrong = append(wrong, fmt.Sprintf("%s, %s: %s was refused: %v", n.Name, level.Name, r.Other, r.Refused))
		}
	}
	return wrong
}

// other is a client with a right to be served. try returns "", or how it was refused.
type other struct {
	name string
	try  func(i int) string
}

func (s *Site) others() []other {
	mint := s.Mint
	if mint == nil {
		mint = s.Dial
	}
	return []other{
		{"a request of a logged-in user", func(int) string { return sessionsOf(s.Dial, <-s.minted) }},
		{"a socket of a logged-in user", func(int) string { return connect(s.Dial, <-s.minted, false, 0) }},
		{"a new login and its token", func(i int) string {
			got, refused := login(mint, s.Users[i%len(s.Users)])
			if refused != "" {
				return "login: " + refused
			}
			return sessionsOf(s.Dial, got.Access)
		}},
		{"a refresh", func(i int) string {
			c := &s.chains[i%len(s.chains)]
			next, refused := refresh(s.Dial, c.Refresh)
			if refused == "" {
				if *c = next; s.Mint == nil {
					return ""
				}
				if next, refused = refresh(s.Mint, c.Refresh); refused == "" {
					*c = next
				}
			}
			return refused
		}},
		{"a page", func(int) string {
			<-time.After(100 * time.Millisecond) // pages of an address are less than its limit
			return connect(s.Dial, <-s.minted, true, 300*time.Millisecond)
		}},
	}
}
