package host

import (
	"context"
	"errors"
	"fmt"
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

// keepEarlier adds earlier days until the journal has all, or until ctx ends.
func keepEarlier(ctx context.Context, h *Host) {
	j := h.cfg.Journal
	if len(j.Earlier()) == 0 {
		return
	}
	e := &earlier{Host: h, failures: map[string]int{}}
	e.copier = &copying.Copier{Journal: h.cfg.Setup.journal, Pause: earlierPause, Reserve: earlierReserve}
	h.log.Info("the journal has the newest days; earlier days follow", "days", len(j.Earlier()))
	for len(j.Earlier()) > 0 {
		err := e.try(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			continue
		}
		if time.Since(e.logged) > logEvery {
			e.logged = time.Now()
			h.log.Warn("earlier days of the journal are missing, trying again", "error", err, "days", len(j.Earlier()))
		}
		if !sleep(ctx, earlierRetry) {
			return
		}
	}
	h.log.Info("the journal has all earlier days")
}

// try makes one attempt.
func (e *earlier) try(ctx context.Context) error {
	s, err := jetstream.Dial(ctx, e.cfg.Setup.log)
	if err != nil {
		return err
	}
	defer s.Close()
	offers, err := offersOf(ctx, s, e.name)
	if err != nil {
		return err
	}
	from, err := e.choose(offers)
	if from == nil {
		return err
	}
	e.copier.Ask = func(ctx context.Context, node string, request []byte, f func([]byte) error) error {
		return s.AskEach(ctx, subjectCopy+"."+node, request, f)
	}
	err = e.copier.AddEarlier(ctx, e.cfg.Journal, from, offers)
	switch {
	case errors.As(err, new(*copying.PeerError)):
		e.failures[from.Node]++
	case errors.Is(err, copying.ErrLimits):
		e.log.Info("the limits of the journal leave no space for earlier days", "days", len(e.cfg.Journal.Earlier()))
		return journal.ForgetEarlier(e.cfg.Journal)
	}
	return err
}

// Errors of earlier days that no node provides now.
var (
	errAbsent = errors.New("no node that answers has this day")
	errFiles  = errors.New("only nodes with other files have this day: start the node that was copied, or stop this one, remove its folder journal, and start it: it then copies another node")
)

// choose returns the offer of the node that provides the next day. It prefers the fewest failures,
// and a node that is not the sequencer. If no node has the day for some time, the earlier days are
// given up, because the others have removed them. The offer is then nil.
func (e *earlier) choose(offers []copying.Offer) (best *copying.Offer, err error) {
	left := e.cfg.Journal.Earlier()
	next := left[len(left)-1]
	err = errAbsent
	absent := true
	for i := range offers {
		o := &offers[i]
		has := hasDay(o.Days, next)
		absent = absent && !has && !hasDay(o.Earlier, next) && o.Reason == ""
		switch {
		case o.Reason != "":
			err = errors.Join(err, fmt.Errorf("node %s: %s", o.Node, o.Reason))
		case !has:
		case o.Segments != e.cfg.Journal.ID():
			err = errFiles
		case best == nil || e.failures[o.Node] < e.failures[best.Node] || e.failures[o.Node] == e.failures[best.Node] && best.Leads && !o.Leads:
			best = o
		}
	}
	switch {
	case best != nil || !absent || len(offers) == 0:
		e.absentAt = time.Time{}
	case e.absentAt.IsZero():
		e.absentAt = time.Now()
	case time.Since(e.absentAt) > absentTime:
		e.log.Warn("no node has the earlier days of the journal any more", "date", next.Date, "days", len(left))
		return nil, journal.ForgetEarlier(e.cfg.Journal)
	}
	if best != nil {
		return best, nil
	}
	return nil, fmt.Errorf("%s: %w", next.Date, err)
}

// hasDay reports whether a list has a day.
func hasDay(list []copying.Day, d journal.EarlierDay) bool {
	for _, x := range list {
		if x == copying.Day(d) {
			return true
		}
	}
	return false
}
