package throttle

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ruedahq/rueda/internal/base/clientaddr"
	"github.com/ruedahq/rueda/internal/base/ratelimit"
)

// plainThrottle is a simple model of the throttle. It records everything that happened, and
// computes the next answer from that record each time.
type plainThrottle struct {
	free   int
	rates  [levels]ratelimit.Rate
	half   bool
	past   []plainFailure // in order
	flying []*plainAttempt
	known  []account
}

type plainFailure struct {
	at      time.Time
	account account       // zero: no failure of the account
	buckets []plainCharge //
	success bool          // forgets the account's failures instead
}

type plainCharge struct {
	key  bucketKey
	rate ratelimit.Rate
}

type plainAttempt struct {
	account account
	place   netip.Prefix
	known   bool
	charges []plainCharge
	real    *Attempt
}

func (p *plainThrottle) rate(l level) ratelimit.Rate {
	r := p.rates[l]
	if p.half && l != levelUnanswered {
		return ratelimit.Rate{Interval: 2 * r.Interval, Burst: max(r.Burst, 2*r.Interval)}
	}
	return r
}

// even replays all failures of a bucket. Each failure moves the time at which the bucket is empty
// by one interval.
func (p *plainThrottle) even(key bucketKey, now time.Time) time.Duration {
	even := modelStart
	for _, f := range p.past {
		for _, c := range f.buckets {
			if c.key == key {
				ahead := max(0, even.Sub(f.at)) + c.rate.Interval
				if key.level == levelUnanswered { // of the attempts that run at the same time, all may remain unanswered
					ahead = min(ahead, max(c.rate.Burst, 2*c.rate.Interval))
				}
				even = f.at.Add(ahead)
			}
		}
	}
	return max(0, even.Sub(now))
}

// failed returns the number of consecutive failures of an account, and the time of the last one.
func (p *plainThrottle) failed(who account, now time.Time) (count int, last time.Time) {
	last = modelStart
	for _, f := range p.past {
		if f.account != who {
			continue
		}
		if f.success {
			count = 0
			continue
		}
		if f.at.Sub(last) > FailuresKept {
			count = 0
		}
		count, last = count+1, f.at
	}
	if now.Sub(last) > FailuresKept {
		count = 0
	}
	return count, last
}

// keys returns the buckets of an attempt.
func (a *plainAttempt) keys(network netip.Prefix, asks, first bool) []bucketKey {
	username := a.account.username
	whole := bucketKey{level: levelRetry, account: username}
	if first {
		whole.level = levelFirstTry
	}
	keys := []bucketKey{{level: levelUnanswered, place: network}, {level: levelAddress, place: a.place}, {level: levelNetwork, place: network}, {level: levelGlobal}, whole}
	incomplete := bucketKey{level: levelRefused, account: username}
	if a.known {
		keys = []bucketKey{{level: levelKnown, place: a.place}}
		incomplete.place = a.place
	}
	keys = append(keys, bucketKey{level: levelRefused, account: "\x00" + username, place: network})
	if asks {
		keys = append(keys, incomplete)
	}
	return keys
}

// ask returns the expected result of an attempt: "try", "wait", or a reason and how long to wait.
func (p *plainThrottle) ask(username string, place, network netip.Prefix, asks bool, now time.Time) (string, *plainAttempt) {
	who := account{username, network}
	known := slices.Contains(p.known, account{username, place})
	if known {
		who.place = place
	}
	free := p.free
	if p.half {
		free = max(1, free/2)
	}
	count, last := p.failed(who, now)
	if count >= free {
		wait := MaxBackoff
		if over := count - free; over < 10 {
			wait = min(wait, time.Second*time.Duration(1<<over))
		}
		if left := last.Add(wait).Sub(now); left > 0 {
			return fmt.Sprint(TooManyFailures, " ", left), nil
		}
	}
	for _, a := range p.flying { // one password of an account at a time
		if a.account.username == username && a.known == known {
			return "wait", nil
		}
	}
	a := &plainAttempt{account: who, place: place, known: known}
	for _, key := range a.keys(network, asks, count == 0) {
		r := p.rate(key.level)
		a.charges = append(a.charges, plainCharge{key, r})
		even := p.even(key, now)
		var inFlight time.Duration
		for _, other := range p.flying {
			for _, c := range other.charges {
				if c.key == key && key.level != levelUnanswered {
					inFlight += c.rate.Interval
				}
			}
		}
		if left := even + inFlight + r.Interval - r.Burst; left > 0 {
			if even+r.Interval <= r.Burst {
				return "wait", nil
			}
			switch key.level {
			case levelRefused, levelFirstTry, levelRetry:
				return fmt.Sprint(TooManyFailures, " ", left), nil
			case levelUnanswered:
				return fmt.Sprint(Unavailable, " ", left), nil
			}
			return fmt.Sprint(RateLimited, " ", left), nil
		}
	}
	return "try", a
}

// end records the outcome of an attempt.
func (p *plainThrottle) end(i int, how string, now time.Time) {
	a := p.flying[i]
	p.flying = slices.Delete(p.flying, i, i+1)
	f := plainFailure{at: now, account: a.account}
	switch how {
	case "succeed":
		f.success = true
		p.past = append(p.past, f)
		if at := (account{a.account.username, a.place}); !slices.Contains(p.known, at) {
			p.known = append(p.known, at)
		}
	case "fail", "incomplete", "outside", "unanswered":
		for _, c := range a.charges {
			of := "fail"
			switch c.key.level {
			case levelRefused:
				of = "incomplete"
				if c.key.account[0] == 0 {
					of = "outside"
				}
			case levelUnanswered:
				of = "unanswered"
			}
			if of == how {
				f.buckets = append(f.buckets, c)
			}
		}
		if how != "fail" {
			f.account = account{}
		}
		p.past = append(p.past, f)
	}
}

var modelStart = time.Unix(1_000_000_000, 0)

// throttleSteps is the number of steps of a soak run. Other runs take a twentieth of it.
const throttleSteps = 100_000

// TestThrottleModel runs random attempts, many of them in parallel, against the throttle and the
// model.
func TestThrottleModel(t *testing.T) {
	want := throttleSteps / 20
	if os.Getenv("RUEDA_SOAK") == "1" {
		want = throttleSteps
	}
	steps, seen := 0, map[string]int{}
	for steps < want {
		rapid.Check(t, func(rt *rapid.T) {
			n, err := playThrottle(rt, seen)
			steps += n
			if err != nil {
				rt.Fatal(err)
			}
		})
	}
	for _, outcome := range []string{"try", "wait", RateLimited, TooManyFailures, Unavailable} {
		if seen[outcome] == 0 {
			t.Errorf("no attempt came to %q: %v", outcome, seen)
		}
	}
	t.Logf("figure: throttle model, %d steps: %v", steps, seen)
}

func playThrottle(rt *rapid.T, seen map[string]int) (steps int, err error) {
	cfg := Config{
		AddressPerMinute: rapid.IntRange(1, 60).Draw(rt, "address a minute"), AddressBurst: rapid.IntRange(1, 8).Draw(rt, "address burst"),
		NetworkPerMinute: rapid.IntRange(1, 60).Draw(rt, "network a minute"), NetworkBurst: rapid.IntRange(1, 12).Draw(rt, "network burst"),
		GlobalPerMinute: rapid.IntRange(1, 60).Draw(rt, "in all a minute"), GlobalBurst: rapid.IntRange(1, 20).Draw(rt, "in all at once"),
		AccountFree: rapid.IntRange(1, 6).Draw(rt, "free"), FamilyPerMinute: 1, FamilyBurst: 1,
	}
	th := newLimiter(cfg)
	model := &plainThrottle{free: cfg.AccountFree, rates: th.limits.Load().rates}
	now := modelStart
	places := []netip.Addr{
		netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("198.51.100.1"),
		netip.MustParseAddr("2001:db8:0:1::1"), netip.MustParseAddr("2001:db8:0:1:9::1"), netip.MustParseAddr("2001:db8:0:2::1"),
	}
	for steps = range rapid.IntRange(20, 120).Draw(rt, "steps") {
		switch what := rapid.IntRange(0, 19).Draw(rt, "what"); {
		case what < 10:
			username, place := rapid.SampledFrom([]string{"maria", "otto"}).Draw(rt, "who"), rapid.SampledFrom(places).Draw(rt, "from")
			asks := rapid.Bool().Draw(rt, "without one-time password")
			must, plain := model.ask(username, clientaddr.Client(place), clientaddr.Network(place), asks, now)
			real := &Attempt{t: th, place: clientaddr.Client(place), network: clientaddr.Network(place)}
			got := "try"
			wait, refused := th.reserve(real, username, asks, now)
			switch {
			case wait != nil:
				got = "wait"
			case refused != nil:
				got = fmt.Sprint(refused.Reason, " ", refused.RetryAfter)
			}
			if got != must {
				return steps, fmt.Errorf("step %d: %s from %s: %q, want %q", steps, username, place, got, must)
			}
			if refused != nil {
				got = refused.Reason
			}
			seen[got]++
			if plain != nil {
				plain.real = real
				model.flying = append(model.flying, plain)
			}
		case what < 16 && len(model.flying) > 0:
			i := rapid.IntRange(0, len(model.flying)-1).Draw(rt, "which")
			outcomes := map[string]Settlement{
				"fail": Failed, "succeed": Succeeded, "refund": Refunded, "incomplete": Incomplete, "outside": Outside, "unanswered": Unanswered,
			}
			how := rapid.SampledFrom([]string{"fail", "fail", "fail", "succeed", "refund", "incomplete", "outside", "unanswered"}).Draw(rt, "how")
			model.flying[i].real.completeAt(outcomes[how], now)
			model.end(i, how, now)
		case what == 16:
			model.half = !model.half
			th.halve(model.half)
		default:
			now = now.Add(rapid.SampledFrom([]time.Duration{
				time.Millisecond, time.Second, 6 * time.Second, time.Minute, 15 * time.Minute, 25 * time.Hour,
			}).Draw(rt, "wait"))
		}
	}
	return steps + 1, nil
}
