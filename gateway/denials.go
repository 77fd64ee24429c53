package gateway

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/audit"
	"github.com/ruedahq/rueda/internal/session"
	"github.com/ruedahq/rueda/wire"
)

const (
	denialEvery  = time.Hour       // a denial is written once in so long
	denialsKnown = 1 << 16         // that are remembered for that
	denialsWait  = 256             // to be written; more are let go, and told when they come again
	denialsAgain = 2 * time.Second // after a failure to write
)

// auditLog is where events go that are of no change of the database.
type auditLog interface {
	Append(ctx context.Context, events ...audit.Event) error
}

// denials tells the audit log who asked for market data without a right to them. Whoever refuses waits for nothing.
type denials struct {
	store auditLog
	knows func(market string) bool // a market is listed; others are whatever somebody types
	log   *slog.Logger
	queue chan audit.Event

	mu   sync.Mutex
	told map[denial]time.Time
}

type denial struct{ user, market, level, reason string }

func newDenials(s auditLog, knows func(string) bool, log *slog.Logger) *denials {
	return &denials{store: s, knows: knows, log: log, queue: make(chan audit.Event, denialsWait), told: make(map[denial]time.Time)}
}

// session is session.Env.Denied.
func (d *denials) session(user, market string, level session.Level, reason wire.Reason) {
	d.note(user, market, level.String(), string(reason))
}

// note has a denial written, unless it was within the hour.
func (d *denials) note(user, market, level, reason string) {
	if market != "*" && !d.knows(market) {
		market = "?"
	}
	k, now := denial{user, market, level, reason}, time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if at, ok := d.told[k]; ok && now.Sub(at) < denialEvery {
		return
	}
	if len(d.told) >= denialsKnown {
		for k, at := range d.told {
			if now.Sub(at) >= denialEvery {
				delete(d.told, k)
			}
		}
		if len(d.told) >= denialsKnown {
			return
		}
	}
	e := audit.Event{Time: now, Kind: audit.AccessDenied, Actor: "client", User: user, Detail: level + " " + market + " " + reason}
	select {
	case d.queue <- e:
		d.told[k] = now
	default: // it is told when it comes again
	}
}

// Run writes until ctx ends, and then what is left.
func (d *denials) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), denialsAgain)
			defer cancel()
			if events := d.waiting(nil); len(events) > 0 {
				d.append(last, events)
			}
			return nil
		case e := <-d.queue:
			events := d.waiting([]audit.Event{e})
			for !d.append(ctx, events) {
				select {
				case <-ctx.Done():
					return nil
				case <-time.After(denialsAgain):
				}
			}
		}
	}
}

// waiting adds the events that wait, to as many as may wait: whoever refuses may add meanwhile.
func (d *denials) waiting(events []audit.Event) []audit.Event {
	for len(events) < denialsWait {
		select {
		case e := <-d.queue:
			events = append(events, e)
		default:
			return events
		}
	}
	return events
}

func (d *denials) append(ctx context.Context, events []audit.Event) bool {
	if err := d.store.Append(ctx, events...); err != nil {
		d.log.Warn("denials not written to the audit log, trying again", "error", err, "count", len(events))
		return false
	}
	return true
}
