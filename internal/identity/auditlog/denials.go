package auditlog

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/wire"
)

const (
	denialInterval = time.Hour       // a denial is written once in this time
	maxDenials     = 1 << 16         // that are remembered for it
	maxQueued      = 256             // events to be written; more are dropped and written when they come again
	retryDelay     = 2 * time.Second // after a failed write
)

// Appender appends events that do not belong to a change of the database.
type Appender interface {
	Append(ctx context.Context, events ...audit.Event) error
}

// Denials writes refused requests for market data to the audit log, each at most once an hour.
// Reporting a denial does not wait for the database.
type Denials struct {
	log    Appender
	listed func(market string) bool
	logger *slog.Logger
	queue  chan audit.Event

	mu    sync.Mutex
	noted map[denial]time.Time
}

type denial struct{ user, market, level, reason string }

// NewDenials returns a Denials that appends to log. Its Run must be called. Markets that are not
// listed are written as "?": clients choose their names.
func NewDenials(log Appender, listed func(market string) bool, logger *slog.Logger) *Denials {
	return &Denials{log: log, listed: listed, logger: logger, queue: make(chan audit.Event, maxQueued), noted: make(map[denial]time.Time)}
}

// Session records a denial. It has the form of session.Env.Denied.
func (d *Denials) Session(user, market string, level wire.Channel, reason wire.Reason) {
	d.Request(user, market, level.String(), string(reason))
}

// Request records a denial of a REST request.
func (d *Denials) Request(user, market, level, reason string) {
	if market != "*" && !d.listed(market) {
		market = "?"
	}
	k, now := denial{user, market, level, reason}, time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if at, ok := d.noted[k]; ok && now.Sub(at) < denialInterval {
		return
	}
	if len(d.noted) >= maxDenials {
		for k, at := range d.noted {
			if now.Sub(at) >= denialInterval {
				delete(d.noted, k)
			}
		}
		if len(d.noted) >= maxDenials {
			return
		}
	}
	e := audit.Event{Time: now, Kind: audit.AccessDenied, Actor: "client", User: user, Detail: level + " " + market + " " + reason}
	select {
	case d.queue <- e:
		d.noted[k] = now
	default: // it is written when it comes again
	}
}

// Run writes denials until ctx ends, and then writes the rest.
func (d *Denials) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), retryDelay)
			defer cancel()
			if events := d.queued(nil); len(events) > 0 {
				d.append(last, events)
			}
			return nil
		case e := <-d.queue:
			events := d.queued([]audit.Event{e})
			for !d.append(ctx, events) {
				select {
				case <-ctx.Done():
					return nil
				case <-time.After(retryDelay):
				}
			}
		}
	}
}

// queued adds queued events to a list of at most maxQueued. Others may queue more meanwhile.
func (d *Denials) queued(events []audit.Event) []audit.Event {
	for len(events) < maxQueued {
		select {
		case e := <-d.queue:
			events = append(events, e)
		default:
			return events
		}
	}
	return events
}

// append writes events and reports whether it succeeded.
func (d *Denials) append(ctx context.Context, events []audit.Event) bool {
	if err := d.log.Append(ctx, events...); err != nil {
		d.logger.Warn("denials not written to the audit log, retrying", "error", err, "count", len(events))
		return false
	}
	return true
}
