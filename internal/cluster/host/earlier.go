package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/cluster/copying"
	"github.com/ruedahq/rueda/internal/cluster/jetstream"
	"github.com/ruedahq/rueda/internal/journal"
)

const (
	earlierRetry   = 5 * time.Second       // after an attempt that failed
	earlierPause   = 10 * time.Millisecond // between two pieces of a file: clients come first
	earlierReserve = 1 << 30               // bytes of the disk that earlier days do not take
	absentTime     = 10 * time.Minute      // without a node that has the next earlier day, before it is given up
)

// earlier adds the earlier days of the journal of a new node while it serves clients.
type earlier struct {
	*Host
	copier   *copying.Copier
	failures map[string]int // by node
	absentAt time.Time      // since when no node has the next day; zero: one has it
	logged   time.Time
}

// errGivenUp means that the journal of this node does without its earlier days.
var errGivenUp = errors.New("the earlier days are given up")

// keepEarlier adds earlier days until none is missing, until the others are given up, or until ctx
// ends.
func keepEarlier(ctx context.Context, h *Host) {
	j := h.cfg.Journal
	e := &earlier{Host: h, failures: map[string]int{}}
	e.copier = &copying.Copier{Journal: h.cfg.Setup.journal, Reserve: earlierReserve}
	if n := len(j.Earlier()); n > 0 {
		h.log.Info("the journal has the newest days; earlier days follow", "days", n)
	}
	for len(j.Earlier()) > 0 {
		err := e.try(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			h.log.Info("the journal has all earlier days")
		case errors.Is(err, errGivenUp):
		default:
			if time.Since(e.logged) > logEvery {
				e.logged = time.Now()
				h.log.Warn("earlier days of the journal are missing, trying again", "error", err, "days", len(j.Earlier()))
			}
			sleep(ctx, earlierRetry)
		}
	}
	h.failed("remove copies of earlier days", copying.RemoveEarlier(h.cfg.Setup.journal))
}

// try makes one attempt to add all earlier days. The error is errGivenUp if they are given up.
func (e *earlier) try(ctx context.Context) error {
	s, err := jetstream.Dial(ctx, e.cfg.Setup.log)
	if err != nil {
		e.absentAt = time.Time{}
		return err
	}
	defer s.Close()
	offers, err := offersOf(ctx, s, e.name)
	if err != nil {
		e.absentAt = time.Time{}
		return err
	}
	from, err := e.choose(offers)
	if err != nil {
		return err
	}
	e.copier.Ask = func(ctx context.Context, node string, request []byte, f func([]byte) error) error {
		sleep(ctx, earlierPause)
		return askOn(s)(ctx, node, request, f)
	}
	err = e.copier.AddEarlier(ctx, e.cfg.Journal, from, offers)
	switch {
	case errors.As(err, new(*copying.PeerError)):
		e.failures[from.Node]++
	case errors.Is(err, copying.ErrLimits):
		e.log.Info("the limits of the journal leave no space for earlier days", "days", len(e.cfg.Journal.Earlier()))
		return errors.Join(errGivenUp, journal.ForgetEarlier(e.cfg.Journal))
	}
	return err
}

// Errors of earlier days that no node provides now.
var (
	errAbsent = errors.New("no node that answers has this day")
	errFiles  = errors.New("the nodes that have this day have it in other files; start the node that was copied, or remove the folder journal of this node to copy another one")
)

// choose returns the offer of the node that provides the next day. It prefers the fewest failures,
// and a node that is not the sequencer. The days are given up if a node whose journal was copied
// has removed the next one, and no other has it, for some time.
func (e *earlier) choose(offers []copying.Offer) (best *copying.Offer, err error) {
	left := e.cfg.Journal.Earlier()
	next := copying.Day(left[len(left)-1])
	removed, elsewhere, otherFiles := false, false, false
	for i := range offers {
		o := &offers[i]
		has, same := slices.Contains(o.Days, next), o.JournalID == e.cfg.Journal.ID()
		switch {
		case o.Reason != "" || slices.Contains(o.Earlier, next):
			elsewhere = true
		case has && !same:
			otherFiles = true
		case !has:
			removed = removed || same
		case best == nil || e.failures[o.Node] < e.failures[best.Node] || e.failures[o.Node] == e.failures[best.Node] && best.Leads && !o.Leads:
			best = o
		}
	}
	switch {
	case best != nil || elsewhere || otherFiles || !removed:
		e.absentAt = time.Time{}
	case e.absentAt.IsZero():
		e.absentAt = time.Now()
	case time.Since(e.absentAt) > absentTime:
		e.log.Warn("no node has the earlier days of the journal any more", "date", next.Date, "days", len(left))
		return nil, errors.Join(errGivenUp, journal.ForgetEarlier(e.cfg.Journal))
	}
	switch {
	case best != nil:
		return best, nil
	case otherFiles:
		err = errFiles
	default:
		err = errAbsent
	}
	return nil, fmt.Errorf("%s: %w", next.Date, errors.Join(err, reasons(offers)))
}
