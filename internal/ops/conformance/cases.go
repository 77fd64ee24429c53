package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Case is a situation in which a client is tested.
type Case struct {
	Name string
	What string // a sentence: what happens, and what the client must do

	accessTTL   time.Duration
	instruments []string      // in addition to those of the market
	password    string        // instead of the right one
	both        bool          // the client gets both addresses
	trades      int           // in an event of the market; 0: 1
	limit       time.Duration // of the time of the case; 0: caseLimit
	ends        []string      // the client must give up for one of these reasons; nil: it must go on
	script      func(ctx context.Context, w *world) error
}

// patience is how long a client may take for a step, such as to notice that a connection is dead
// and to replace it.
const patience = 30 * time.Second

// Cases returns all cases.
func Cases() []Case {
	return []Case{
		{Name: "plain", What: "Nothing goes wrong. The client prints all trades and books.", script: watch},
		{Name: "reset", What: "The connection is reset five times. The client reconnects and resumes.", script: repeat((*proxy).reset)},
		{Name: "cut", What: "The connection ends within a frame, five times.", script: repeat((*proxy).cut)},
		{Name: "half-open", What: "The network delivers nothing more, without an error. The client notices by the missing pings.", script: halfOpen},
		{Name: "stall", What: "The network stands still for a moment, and then delivers everything.", script: stall},
		{Name: "unreachable", What: "Nothing listens for five seconds. The client waits longer after each try.", script: unreachable},
		{Name: "first-trade", What: "An instrument has its first two trades while the gateway is unreachable. The client marks both as replayed and reports them as recovered. It does neither for the third trade, which comes later.", instruments: []string{rare}, script: firstTrade},
		{Name: "slow", What: "The client's network is too slow, and the gateway closes with 4507.", script: slow},
		{Name: "quiet", What: "There are no events for five seconds, only pings. The client does not reconnect.", script: quiet},
		{Name: "gap", What: "The source loses events. The book is invalid until its snapshot, and the connection stays.", script: sourceGap},
		{Name: "checksum", What: "A book message is damaged on the way. The client notices by the checksum and gets a new snapshot.", script: damage},
		{Name: "additions", What: "The gateway sends messages and members that the client does not know. It ignores them.", script: additions},
		{Name: "expiry", What: "Access tokens live four seconds. The client renews them on the open connection.", accessTTL: 4 * time.Second, script: expiry},
		{Name: "expired-offline", What: "The access token expires while nothing is reachable.", accessTTL: 4 * time.Second, script: expiredOffline},
		{Name: "revoked", What: "The user ends the login. The client gives up.", ends: []string{"token_revoked", "invalid_token", "invalid_grant", "invalid_refresh_token"}, script: revoked},
		{Name: "wrong-password", What: "The password is wrong. The client gives up after the first answer.", password: "not the password", ends: []string{"invalid_credentials"}, script: wrongPassword},
		{Name: "takeover", What: "Another program takes the session over. The client gives up.", ends: []string{"replaced"}, script: takeover},
		{Name: "not-entitled", What: "One instrument is refused. The client reports it and goes on with the others.", instruments: []string{notAllowed}, script: notEntitled},
		{Name: "drain", What: "The gateway is stopped in an orderly way, and returns.", script: restart(false)},
		{Name: "epoch", What: "The gateway returns without its journal, in a new epoch.", script: restart(true)},
		{Name: "second-address", What: "The first address is gone for good. The client uses the second one.", both: true, script: secondAddress},
	}
}

// news waits until the client has printed a new trade and a new book of every instrument.
func news(ctx context.Context, w *world) error {
	type state struct{ trades, books int }
	before := map[string]state{}
	count := func(j *judge, name string) state {
		s := j.of(name)
		return state{len(s.trades[s.epoch]) + s.epoch<<40, s.books}
	}
	return w.program.until(ctx, patience, "new trades and books of all instruments", func(j *judge) bool {
		for _, name := range instruments {
			now := count(j, name)
			if _, known := before[name]; !known {
				before[name] = now
			}
			if now.trades <= before[name].trades || now.books <= before[name].books {
				return false
			}
		}
		return true
	})
}

// sleep waits while the client works.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// watch waits for a second of market.
func watch(ctx context.Context, w *world) error {
	if err := news(ctx, w); err != nil {
		return err
	}
	return sleep(ctx, time.Second)
}

// repeat does something to the connections at five random moments.
func repeat(do func(*proxy)) func(ctx context.Context, w *world) error {
	return func(ctx context.Context, w *world) error {
		for range 5 {
			if err := news(ctx, w); err != nil {
				return err
			}
			if err := sleep(ctx, time.Duration(rand.IntN(300))*time.Millisecond); err != nil {
				return err
			}
			do(w.proxy)
		}
		return news(ctx, w)
	}
}

func halfOpen(ctx context.Context, w *world) error {
	if err := news(ctx, w); err != nil {
		return err
	}
	release := w.proxy.hold()
	defer release()
	return news(ctx, w)
}

func stall(ctx context.Context, w *world) error {
	if err := news(ctx, w); err != nil {
		return err
	}
	release := w.proxy.hold()
	err := sleep(ctx, 700*time.Millisecond)
	release()
	if err != nil {
		return err
	}
	return news(ctx, w)
}

// maxTries bounds the connections that a client may try in five seconds.
const maxTries = 30

func unreachable(ctx context.Context, w *world) error {
	if err := news(ctx, w); err != nil {
		return err
	}
	w.proxy.lead("")
	w.proxy.reset()
	before := w.proxy.attempts()
	if err := sleep(ctx, 5*time.Second); err != nil {
		return err
	}
	if n := w.proxy.attempts() - before; n > maxTries {
		w.program.fault("it tried to connect %d times in five seconds; at most %d are allowed", n, maxTries)
	}
	w.proxy.lead(strings.TrimPrefix(w.rest, "http://"))
	return news(ctx, w)
}

func firstTrade(ctx context.Context, w *world) error {
	if err := news(ctx, w); err != nil {
		return err
	}
	w.proxy.lead("")
	w.proxy.reset()
	w.market.tradeRare(2)
	for stored := 0; stored < 2; {
		if err := w.noteInstrument(ctx, rare); err != nil {
			return err
		}
		if stored = len(w.truth[w.epochs[0]][rare]); stored < 2 {
			if err := sleep(ctx, 20*time.Millisecond); err != nil {
				return err
			}
		}
	}
	w.proxy.lead(strings.TrimPrefix(w.rest, "http://"))
	want := span{1, 2}
	err := w.program.until(ctx, patience, "\"recovered\" for trades 1 to 2 of "+rare, func(j *judge) bool { return slices.Contains(j.of(rare).regained, want) })
	if err != nil {
		return err
	}
	w.market.tradeRare(1)
	err = w.program.until(ctx, patience, "trade 3 of "+rare, func(j *judge) bool { return j.of(rare).newest() == 3 })
	if err != nil {
		return err
	}
	w.program.mu.Lock()
	defer w.program.mu.Unlock()
	j := w.program.judge
	if s := j.of(rare); len(s.regained) != 1 || !slices.Equal(s.replayed, []uint64{1, 2}) {
		j.fault("trades %v of %s are marked as replayed, and %v are reported as recovered; trades 1 and 2 were missed", s.replayed, rare, s.regained)
	}
	return nil
}

func slow(ctx context.Context, w *world) error {
	if err := news(ctx, w); err != nil {
		return err
	}
	before := w.proxy.handshakes()
	release := w.proxy.holdDown()
	err := sleep(ctx, 4*time.Second)
	release()
	if err != nil {
		return err
	}
	if err := news(ctx, w); err != nil {
		return err
	}
	if w.proxy.handshakes() == before {
		return fmt.Errorf("the gateway has not closed the connection of a slow client")
	}
	return nil
}

func quiet(ctx context.Context, w *world) error {
	if err := news(ctx, w); err != nil {
		return err
	}
	before := w.proxy.handshakes()
	w.market.pause()
	if err := sleep(ctx, 5*time.Second); err != nil {
		return err
	}
	w.market.resume()
	if err := news(ctx, w); err != nil {
		return err
	}
	if n := w.proxy.handshakes() - before; n > 0 {
		w.program.fault("it connected %d times again in a quiet market", n)
	}
	return nil
}

func sourceGap(ctx context.Context, w *world) error {
	if err := news(ctx, w); err != nil {
		return err
	}
	before := w.proxy.handshakes()
	w.market.lose(instruments[0])
	if err := w.invalid(ctx, "after a gap of the source"); err != nil {
		return err
	}
	if err := news(ctx, w); err != nil {
		return err
	}
	if w.proxy.handshakes() > before {
		w.program.fault("it connected again because of a gap of the source")
	}
	return nil
}

// invalid waits until the client has reported an invalid book of the first instrument.
func (w *world) invalid(ctx context.Context, when string) error {
	return w.program.until(ctx, patience, "\"invalid\" "+when, func(j *judge) bool { return j.of(instruments[0]).invalid > 0 })
}

func damage(ctx context.Context, w *world) error {
	if err := news(ctx, w); err != nil {
		return err
	}
	w.proxy.change(once(damageChecksum))
	if err := w.invalid(ctx, "after a wrong checksum"); err != nil {
		return err
	}
	return news(ctx, w)
}

func additions(ctx context.Context, w *world) error {
	w.proxy.change(addUnknown)
	w.proxy.reset()
	if err := news(ctx, w); err != nil {
		return err
	}
	before := w.proxy.handshakes()
	if err := sleep(ctx, time.Second); err != nil {
		return err
	}
	if w.proxy.handshakes() > before {
		w.program.fault("it connected again because of something that it does not know")
	}
	return news(ctx, w)
}

func expiry(ctx context.Context, w *world) error {
	if err := news(ctx, w); err != nil {
		return err
	}
	if err := sleep(ctx, 9*time.Second); err != nil {
		return err
	}
	return news(ctx, w)
}

func expiredOffline(ctx context.Context, w *world) error {
	if err := news(ctx, w); err != nil {
		return err
	}
	w.proxy.lead("")
	w.proxy.reset()
	if err := sleep(ctx, 6*time.Second); err != nil {
		return err
	}
	w.proxy.lead(strings.TrimPrefix(w.rest, "http://"))
	return news(ctx, w)
}

func revoked(ctx context.Context, w *world) error {
	if err := news(ctx, w); err != nil {
		return err
	}
	return w.endLogins(ctx)
}

func wrongPassword(context.Context, *world) error { return nil }

func takeover(ctx context.Context, w *world) error {
	if err := news(ctx, w); err != nil {
		return err
	}
	return w.takeOver(ctx)
}

func notEntitled(ctx context.Context, w *world) error {
	err := w.program.until(ctx, patience, "\"rejected\" for "+notAllowed, func(j *judge) bool { return j.of(notAllowed).rejected != "" })
	if err != nil {
		return err
	}
	return news(ctx, w)
}

func restart(forget bool) func(ctx context.Context, w *world) error {
	return func(ctx context.Context, w *world) error {
		if err := news(ctx, w); err != nil {
			return err
		}
		if err := w.restart(ctx, forget); err != nil {
			return err
		}
		if forget {
			err := w.program.until(ctx, patience, "\"lost\" with epoch_changed for all instruments", func(j *judge) bool {
				for _, name := range instruments {
					if j.of(name).epoch == 0 {
						return false
					}
				}
				return true
			})
			if err != nil {
				return err
			}
		}
		return news(ctx, w)
	}
}

func secondAddress(ctx context.Context, w *world) error {
	if err := news(ctx, w); err != nil {
		return err
	}
	w.second.lead(strings.TrimPrefix(w.rest, "http://"))
	w.proxy.lead("")
	w.proxy.reset()
	return news(ctx, w)
}
