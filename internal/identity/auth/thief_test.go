package auth_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/identity/auth"
)

// A rhythm is how long a client waits before its next refresh.
type rhythm struct {
	name string
	wait func(r *rand.Rand) time.Duration
}

func rhythms() []rhythm {
	return []rhythm{
		{"every 48 s", func(*rand.Rand) time.Duration { return 48 * time.Second }},
		{"every 15 min", func(*rand.Rand) time.Duration { return 15 * time.Minute }},
		{"every hour, about", func(r *rand.Rand) time.Duration {
			return 50*time.Minute + time.Duration(r.Int64N(int64(20*time.Minute)))
		}},
		{"at random within a day", func(r *rand.Rand) time.Duration { return time.Duration(1 + r.Int64N(int64(day))) }},
		{"in bursts", func(r *rand.Rand) time.Duration {
			if r.IntN(4) > 0 {
				return time.Duration(1+r.IntN(20)) * time.Second
			}
			return 8 * time.Hour
		}},
	}
}

// thief has one refresh token of a victim, and everything that it was answered. It knows the rules:
// it polls, reads last_used_at, and chooses the token and the moment of each refresh.
type thief struct {
	w        *world
	r        *rand.Rand
	from     auth.Origin
	known    []auth.Tokens // the newest last
	patience time.Duration // of its polls
	lastSeen time.Time     // last_used_at
	granted  int
}

// move makes the next attempt, with the newest tokens more often than with old ones.
func (a *thief) move() {
	if a.r.IntN(3) == 0 { // does the victim move?
		id, err := a.w.Verify(a.w.t.Context(), a.known[len(a.known)-1].Access.Reveal())
		if err == nil {
			list, err := a.w.Sessions(a.w.t.Context(), id)
			if err == nil && len(list) > 0 && !list[0].Used.After(a.lastSeen) {
				return // it waits for the victim
			}
			if len(list) > 0 {
				a.lastSeen = list[0].Used
			}
		}
	}
	i := len(a.known) - 1 - min(a.r.IntN(3)*a.r.IntN(3), len(a.known)-1)
	got, err := a.w.Refresh(a.w.t.Context(), a.known[i].Refresh, a.from)
	if err == nil {
		a.known = append(a.known, got)
		a.granted++
	}
	a.patience = time.Duration(1 + a.r.Int64N(int64(time.Minute))<<a.r.IntN(6)) // another rhythm
}

// lockedOut reports whether no token of the thief is accepted any more.
func (a *thief) lockedOut() bool {
	for _, tokens := range a.known {
		state, err := a.w.Introspect(a.w.t.Context(), tokens.Refresh)
		if err != nil || state.Active {
			return false
		}
	}
	return true
}

// theft plays one theft after some refreshes of its user. It returns after how many more refreshes
// of the user it was noticed, or the thief had no valid refresh token; 0: not within most.
func theft(w *world, seed uint64, honest rhythm, from auth.Origin, most int) (refreshes int, noticed bool) {
	r := rand.New(rand.NewPCG(seed, 7))
	tokens := w.login("maria")
	for range r.IntN(3) {
		time.Sleep(honest.wait(r))
		tokens = w.refresh(tokens.Refresh)
	}
	a := &thief{w: w, r: r, from: from, known: []auth.Tokens{tokens}, patience: time.Second}
	next := time.Now().Add(honest.wait(r))
	for refreshes = 1; refreshes <= most; refreshes++ {
		for wait := a.patience; time.Now().Add(wait).Before(next); wait = a.patience {
			time.Sleep(wait)
			a.move()
		}
		time.Sleep(time.Until(next))
		got, err := w.Refresh(w.t.Context(), tokens.Refresh, origin)
		next = time.Now().Add(honest.wait(r))
		switch {
		case len(w.hooks.revokedFamilies()) > 0:
			return refreshes, true
		case a.lockedOut():
			return refreshes, false
		case err != nil: // the victim logs in again, and the thief keeps the login
			return 0, false
		}
		tokens = got
	}
	return 0, false
}

// TestThreat07AdaptiveThief plays thieves that know the rules against victims of five rhythms. From
// another network each is noticed, or has no valid refresh token, within the victim's next two
// refreshes. From the victim's own network the share is only reported.
func TestThreat07AdaptiveThief(t *testing.T) {
	for _, mode := range []string{auth.RotationActivation, auth.RotationStrict} {
		for _, network := range []struct {
			name string
			from auth.Origin
		}{{"another network", at("198.51.100.1")}, {"the same network", at("192.0.2.200")}} {
			noticed, out, missed := 0, 0, 0
			for i, honest := range rhythms() {
				for round := range soak(1000) {
					synctest.Test(t, func(t *testing.T) {
						w := newWorld(t, func(c *auth.Config) { c.Rotation = mode })
						n, revoked := theft(w, uint64(i)<<32|uint64(round), honest, network.from, 2)
						switch {
						case n == 0:
							missed++
							if network.name == "another network" {
								t.Errorf("%s, user %s, round %d: not noticed", mode, honest.name, round)
							}
						case revoked:
							noticed++
						default:
							out++
						}
					})
				}
			}
			t.Logf("figure: thief with %s rotation from %s: noticed %d, locked out %d, neither %d", mode, network.name, noticed, out, missed)
		}
	}
}

// TestHonestClientsStay checks that processes which share a file of tokens, refresh at the same
// time and lose answers are never logged out. In strict rotation they retry at once.
func TestHonestClientsStay(t *testing.T) {
	for _, mode := range []string{auth.RotationActivation, auth.RotationStrict} {
		for round := range soak(200) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, func(c *auth.Config) { c.Rotation = mode })
				r := rand.New(rand.NewPCG(uint64(round), 11))
				file := w.login("maria").Refresh // of two processes at two addresses of one network
				places := [2]auth.Origin{origin, at("192.0.2.77")}
				for step := range 200 {
					time.Sleep(time.Duration(r.Int64N(int64(time.Hour))))
					read := [2]auth.Secret{file, file} // both read it before one writes
					for i := range 1 + r.IntN(2) {
						time.Sleep(time.Duration(r.Int64N(int64(10 * time.Second))))
						got, err := w.Refresh(t.Context(), read[i], places[i])
						if err != nil {
							t.Fatal(fmt.Errorf("%s, round %d, step %d, process %d: %w", mode, round, step, i, err))
						}
						switch lost := r.IntN(4) == 0; {
						case !lost:
							file = got.Refresh
						case mode == auth.RotationStrict: // the client retries within the grace period
							if got, err = w.Refresh(t.Context(), read[i], places[i]); err != nil {
								t.Fatal(fmt.Errorf("%s, round %d, step %d, retry: %w", mode, round, step, err))
							}
							file = got.Refresh
						}
					}
				}
				if got := w.hooks.revokedFamilies(); len(got) != 0 {
					t.Errorf("%s, round %d: %v revoked", mode, round, got)
				}
			})
		}
	}
}
