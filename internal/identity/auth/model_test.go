package auth_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/ruedahq/rueda/internal/identity/auth"
)

// modelFamily is a simple model of a family. It records every use of every token and computes the
// expected result from that record.
type modelFamily struct {
	strict      bool
	tokens      []*modelToken
	access      []modelAccess
	last        auth.Origin // of the last refresh that succeeded
	revoked     bool
	revocations int // how often OnRevoke must have been called
}

type modelToken struct {
	text       string
	issued     time.Time
	uses       []time.Time // refreshes that succeeded
	parent     *modelToken
	successors []*modelToken
}

// line returns the successor that was used first; nil: none was.
func (t *modelToken) line() (first *modelToken) {
	for _, s := range t.successors {
		if len(s.uses) > 0 { // at most one: the others are dead then
			first = s
		}
	}
	return first
}

type modelAccess struct {
	text    string
	expires time.Time
}

// expiry returns the exp of an access token made now. A JWT has whole seconds.
func expiry(now time.Time) time.Time { return now.Truncate(time.Second).Add(day) }

// present reports whether a refresh must succeed, and revokes if it must.
func (f *modelFamily) present(t *modelToken, now time.Time, from auth.Origin) bool {
	if f.revoked || !now.Before(t.issued.Add(month)) || !now.Before(f.tokens[0].issued.Add(familyMaxAge)) {
		return false
	}
	var died time.Time
	line := t.line()
	switch {
	case t.parent != nil && t.parent.line() != nil && t.parent.line() != t:
		died = t.parent.line().uses[0]
	case line != nil:
		died = line.uses[0]
	case f.strict && len(t.uses) > 0:
		if now.Sub(t.uses[0]) <= grace {
			return true
		}
		died = t.uses[0]
	default:
		return true
	}
	here, last := from.Address.As4(), f.last.Address.As4()
	if now.Sub(died) > grace || [3]byte(here[:]) != [3]byte(last[:]) {
		f.revoke()
	}
	return false
}

func (f *modelFamily) revoke() {
	if !f.revoked {
		f.revoked = true
		f.revocations++
	}
}

// answer records a refresh that succeeded.
func (f *modelFamily) answer(t *modelToken, got auth.Tokens, now time.Time, from auth.Origin) error {
	t.uses = append(t.uses, now)
	text := got.Refresh.Reveal()
	for _, other := range f.tokens {
		if other.text == text {
			return fmt.Errorf("the successor is an earlier token")
		}
	}
	successor := &modelToken{text: text, issued: now, parent: t}
	t.successors = append(t.successors, successor)
	f.tokens, f.last = append(f.tokens, successor), from
	f.access = append(f.access, modelAccess{got.Access.Reveal(), expiry(now)})
	return nil
}

// step is one action after a wait.
type step struct {
	Wait  time.Duration
	What  string
	Which int // token, counted from the newest
	From  int // one of modelOrigins
}

const familyMaxAge = 90 * day // the default of the configuration

// modelOrigins are two places in one network, and one in another.
func modelOrigins() [3]auth.Origin {
	return [3]auth.Origin{at("192.0.2.1"), at("192.0.2.77"), at("198.51.100.1")}
}

func drawSteps(rt *rapid.T) []step {
	return rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
		return step{
			Wait: rapid.SampledFrom([]time.Duration{
				0, 1, time.Second, grace - 1, grace, grace + 1, time.Hour, day - 1, day, 15 * day, month - 1, month,
			}).Draw(rt, "wait"),
			What:  rapid.SampledFrom([]string{"refresh", "refresh", "refresh", "refresh", "refresh", "refresh", "verify", "verify", "restart", "log out"}).Draw(rt, "what"),
			Which: rapid.IntRange(0, 4).Draw(rt, "which"),
			From:  rapid.IntRange(0, 2).Draw(rt, "from"),
		}
	}), 1, 25).Draw(rt, "steps")
}

// TestFamilyModel runs random lives of a family against a Service and the model.
func TestFamilyModel(t *testing.T) { playFamilies(t, 1) }

// TestFamilyModelE2E runs more of them, without the race detector.
func TestFamilyModelE2E(t *testing.T) { playFamilies(t, soak(180)) }

func playFamilies(t *testing.T, rounds int) {
	for _, strictly := range []bool{false, true} {
		granted, revoked, played := 0, 0, 0
		for range rounds {
			rapid.Check(t, func(rt *rapid.T) {
				steps := drawSteps(rt)
				var err error
				synctest.Test(t, func(t *testing.T) {
					f := &modelFamily{strict: strictly}
					err = play(newWorld(t, func(c *auth.Config) {
						if strictly {
							strict(c)
						}
					}), f, steps)
					played += len(steps)
					granted += len(f.access)
					revoked += f.revocations
				})
				if err != nil {
					rt.Fatal(err)
				}
			})
		}
		t.Logf("figure: family model, strict %v: %d steps, %d answers, %d families revoked", strictly, played, granted, revoked)
	}
}

func play(w *world, f *modelFamily, steps []step) error {
	tokens := w.login("maria")
	now := time.Now()
	f.tokens = []*modelToken{{text: tokens.Refresh.Reveal(), issued: now}}
	f.access = []modelAccess{{tokens.Access.Reveal(), expiry(now)}}
	for i, s := range steps {
		time.Sleep(s.Wait)
		if err := f.step(w, s); err != nil {
			return fmt.Errorf("step %d, %+v: %w", i, s, err)
		}
		if got := len(w.hooks.revokedFamilies()); got != f.revocations {
			return fmt.Errorf("step %d, %+v: OnRevoke %d times, want %d", i, s, got, f.revocations)
		}
	}
	return nil
}

func (f *modelFamily) step(w *world, s step) error {
	now := time.Now()
	token := f.tokens[max(0, len(f.tokens)-1-s.Which)]
	switch s.What {
	case "refresh":
		from := modelOrigins()[s.From]
		must := f.present(token, now, from)
		got, err := w.Refresh(w.t.Context(), auth.NewSecret(token.text), from)
		if (err == nil) != must {
			return fmt.Errorf("error %v; must succeed: %v", err, must)
		}
		if err != nil && reasonOf(err) != auth.InvalidRefreshToken {
			return err
		}
		if err == nil {
			return f.answer(token, got, now, from)
		}
	case "verify":
		for _, a := range f.access {
			want := ""
			if f.revoked {
				want = auth.TokenRevoked
			}
			if !now.Before(a.expires) {
				want = auth.TokenExpired
			}
			if _, err := w.Verify(w.t.Context(), a.text); reasonOf(err) != want {
				return fmt.Errorf("reason %q (%v), want %q", reasonOf(err), err, want)
			}
		}
	case "log out":
		if s.Which != 3 { // rarely, because a revoked family has little more to test
			return nil
		}
		if !f.revoked {
			f.revoke()
			return w.Revoke(w.t.Context(), auth.NewSecret(token.text), origin)
		}
	case "restart":
		w.restart()
	}
	return nil
}
