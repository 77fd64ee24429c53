package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/internal/bench/pattern"
	"github.com/ruedahq/rueda/internal/bench/proc"
	"github.com/ruedahq/rueda/wire"
)

// messageRoom is about the size of a message, which is 160 bytes with numbers of six digits.
const messageRoom = 192

// usualPatience is how long the publisher waits for receivers that get nothing more. Then
// what is missing counts as lost: a rival that drops messages would otherwise stop the run. Mosquitto
// is silent for most of a second while it queues 16 messages for 10,000 subscribers.
const usualPatience = 3 * time.Second

// publisher makes the messages and hands them to a rival in batches: of one, or of
// as many as the pattern wants published together.
type publisher struct {
	relay       *relay
	pattern     pattern.Pattern
	subscribers int
	board       *proc.Board // tells what has been received; for rivals that queue
	patience    time.Duration

	stop atomic.Bool
	last uint64 // number of the newest message
	lost uint64 // deliveries given up
}

// run publishes until stop is set, or ctx ends because the rival is to be closed. A batch
// that has begun is published whole, so that last is what everybody must get.
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
			// A relay may keep a message as long as it waits for a slow socket: each
			// has memory of its own.
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

// hold waits until there is room in the window for another batch.
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
