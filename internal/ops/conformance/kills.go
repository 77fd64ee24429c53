package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	latestBreak = 400 * time.Millisecond // after a handshake
	breakLimit  = 10 * time.Second       // of the time of a break, on average
	newsEvery   = 5                      // breaks without a look at what the client prints
)

// Kills returns a case that is not one of Cases: the client's connections are broken under load,
// count times in each of four ways, in random order and at random moments. They are reset, end
// within a frame, fall silent on both sides, or have ended at the gateway without a sign for the
// client. The gateway has all trades, so that the client may lose none.
func Kills(count int) Case {
	return Case{
		Name:   "kills",
		What:   fmt.Sprintf("Connections are reset, cut in a frame, half open or stalled, %d times each at random moments. No trade is lost.", count),
		trades: 2,
		limit:  caseLimit + time.Duration(count*len(ways))*breakLimit,
		script: func(ctx context.Context, w *world) error { return kills(ctx, w, count) },
	}
}

func kills(ctx context.Context, w *world, count int) error {
	order := slices.Repeat(ways[:], count)
	rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for i, way := range order {
		if i%newsEvery == 0 {
			if err := news(ctx, w); err != nil {
				return fmt.Errorf("after %d broken connections: %w", i, err)
			}
		}
		if err := breakOne(ctx, w, way); err != nil {
			return fmt.Errorf("after %d broken connections, the last one by %s: %w", i+1, way, err)
		}
	}
	if err := news(ctx, w); err != nil {
		return err
	}
	w.program.mu.Lock()
	defer w.program.mu.Unlock()
	for name, s := range w.program.judge.seen {
		for _, l := range s.lost[0] {
			w.program.judge.fault("trades %d to %d of %s were reported as lost, but the gateway has them", l.from, l.to, name)
		}
	}
	return nil
}

// breakOne breaks an open stream at a random moment, and waits until the client has another one.
func breakOne(ctx context.Context, w *world, way string) error {
	for began := time.Now(); ; {
		if err := sleep(ctx, rand.N(latestBreak)); err != nil {
			return err
		}
		before := w.proxy.handshakes()
		if w.proxy.breakStreams(way) == 0 { // the client has just closed it
			if time.Since(began) > patience {
				return fmt.Errorf("within %v the client has not connected", patience)
			}
			continue
		}
		w.broken++
		for began := time.Now(); w.proxy.handshakes() == before; {
			if time.Since(began) > patience {
				return fmt.Errorf("within %v the client has not connected again", patience)
			}
			if err := sleep(ctx, 5*time.Millisecond); err != nil {
				return err
			}
		}
		return nil
	}
}
