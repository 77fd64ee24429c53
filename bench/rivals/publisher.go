package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/bench/pattern"
	"github.com/ruedahq/rueda/bench/proc"
	"github.com/ruedahq/rueda/wire"
)

// messageRoom is the approximate size of a message, which is 160 bytes with numbers of six digits.
const messageRoom = 192

// usualPatience is how long the publisher waits for receivers that make no progress. Missing
// messages then count as lost. Otherwise a rival that drops messages would stop the run. Mosquitto
// is silent for most of a second while it queues 16 messages for 10,000 subscribers.
const usualPatience = 3 * time.Second

// publisher creates the messages and passes them to a rival in batches of one, or of as many as the
// pattern publishes together.
type publisher struct {
	relay       *relay
	pattern     pattern.Pattern
	subscribers int
	board       *proc.Board // reports what was received; for rivals that queue
	patience    time.Duration

	stop atomic.Bool
	last uint64 // number of the newest message
	lost uint64 // deliveries given up
}

// run publishes until stop is set, or until ctx ends because the rival is being closed. It finishes
// a batch that it has begun, so that all receivers must get last.
func (p *publisher) run(ctx context.Context) error {
	ident := wire.MakeIdent(pattern.ID(0))
	batch := make([][]byte, max(1, p.pattern.Batch))
	var pace *pattern.Pacer
	if p.pattern.Kind == pattern.Rate {
		pace = pattern.NewPacer(time.Now(), p.pattern.Rate/float64(len(batch)), nil)
	}
	for !p.stop.Load() && ctx.Err() == nil {
		at := int64(0)
		switch {
		case pace != nil:
			at = pace.Next()
		case p.relay.queues:
			p.hold(ctx)
		}
		now := time.Now().UnixNano()
		if at == 0 {
			at = now
		}
		for i := range batch {
			// A relay may keep a message while it waits for a slow socket, so each message has its
			// own memory.
			batch[i] = pattern.AppendMessage(make([]byte, 0, messageRoom), ident, p.last+uint64(i)+1, at, now)
		}
		if err := p.relay.publish(ctx, batch); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		p.last += uint64(len(batch))
	}
	return nil
}

// hold waits until the window has space for another batch.
func (p *publisher) hold(ctx context.Context) {
	all := uint64(p.subscribers)
	room := uint64(max(0, p.pattern.Window-max(1, p.pattern.Batch))) * all
	received, since := p.board.Received.Load(), time.Now()
	for !p.stop.Load() && ctx.Err() == nil {
		if p.last*all <= p.lost+received+room {
			return
		}
		if time.Since(since) > p.patience {
			p.lost = p.last*all - received
			return
		}
		proc.Nap(50_000)
		if now := p.board.Received.Load(); now != received {
			received, since = now, time.Now()
		}
	}
}
