package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/cluster/copying"
	"github.com/ruedahq/rueda/internal/cluster/jetstream"
	"github.com/ruedahq/rueda/internal/engine/journal"
)

const (
	earlierRetry   = 5 * time.Second       // after the first attempt that failed
	earlierMost    = 2 * time.Minute       // after many
	earlierPause   = 10 * time.Millisecond // between two pieces of a file: clients come first
	earlierReserve = 1 << 30               // bytes of the disk that earlier days do not take
	absentTime     = 10 * time.Minute      // after which days are given up that the copied node has removed, or that are too large
	awayTime       = 24 * time.Hour        // the same for days that no node has that answers
)

// earlier adds the earlier days of the journal of a new node while it serves clients.
type earlier struct {
	*Host
	copier   *copying.Copier
	failures map[string]int // by node
	removed  time.Time      // since when the copied node says that it does not have the next day; zero: it does not
	away     time.Time      // since when no node that answers has the next day; zero: one has it
	full     time.Time      // since when the next day is too large for the limits of the journal; zero: it is not
	logged   time.Time
	newest   string          // date that was added last
	others   func() []string // nodes that this one has heard of
}

// errGivenUp means that the journal of this node does without its earlier days.
var errGivenUp = errors.New("the earlier days are given up")

// keepEarlier adds earlier days until none is missing, until the others are given up, or until ctx
// ends.
func keepEarlier(ctx context.Context, h *Host) {
	j := h.cfg.Journal
	e := &earlier{Host: h, failures: map[string]int{}, others: func() (list []string) {
		s := h.Status()
		for i := range s.Reports {
			list = append(list, s.Reports[i].Node)
		}
		return list
	}}
	e.copier = &copying.Copier{Journal: h.cfg.Setup.journal, Reserve: earlierReserve, Added: e.added}
	if n := len(j.Earlier()); n > 0 {
		h.log.Info("the journal has the newest days; earlier days follow", "days", n)
	}
	wait := earlierRetry
	for left := j.Earlier(); len(left) > 0; left = j.Earlier() {
		err := e.try(ctx)
		if ctx.Err() != nil {
			return
		}
		if len(j.Earlier()) < len(left) {
			wait = earlierRetry
		}
		switch {
		case len(j.Earlier()) == 0 && e.newest == left[0].Date:
			h.log.Info("the journal has all earlier days")
		case err != nil && len(j.Earlier()) > 0:
			text := err.Error()
			h.earlierProblem.Store(&text)
			if time.Since(e.logged) > logEvery {
				e.logged = time.Now()
				h.log.Warn("earlier days of the journal are missing, trying again", "error", err, "days", len(j.Earlier()))
			}
			sleep(ctx, wait)
			wait = min(2*wait, earlierMost)
		}
	}
	h.earlierProblem.Store(nil)
	h.failed("remove copies of earlier days", copying.RemoveEarlier(h.cfg.Setup.journal))
}

// added notes that an earlier day was added.
func (e *earlier) added(date string, bytes int64) {
	e.newest = date
	e.earlierProblem.Store(nil)
	e.removed, e.away, e.full = time.Time{}, time.Time{}, time.Time{}
	e.log.Info("an earlier day was added to the journal", "date", date, "node", e.copier.Progress().Node, "bytes", bytes, "days", len(e.cfg.Journal.Earlier()))
}

// lasts reports whether a condition has been true for some time. since is when it became true.
func lasts(since *time.Time, is bool, limit time.Duration) bool {
	switch {
	case !is:
		*since = time.Time{}
	case since.IsZero():
		*since = time.Now()
	}
	return is && time.Since(*since) > limit
}

// try makes one attempt to add all earlier days. The error is errGivenUp if they are given up.
func (e *earlier) try(ctx context.Context) error {
	if !journal.HasSpace(e.cfg.Journal, 0) {
		return e.giveUp("the limits of the journal leave no space for earlier days")
	}
	s, err := jetstream.Dial(ctx, e.cfg.Setup.log)
	var offers []copying.Offer
	if err == nil {
		defer s.Close()
		offers, err = offersOf(ctx, s, e.name)
	}
	if err != nil {
		e.removed, e.away, e.full = time.Time{}, time.Time{}, time.Time{}
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
	tooLarge := errors.Is(err, copying.ErrLimits)
	if errors.As(err, new(*copying.PeerError)) || tooLarge { // another node may do better
		e.failures[from.Node]++
	}
	if errors.Is(err, copying.ErrFiles) {
		err = fmt.Errorf("%w; %w", err, errFiles)
	}
	if lasts(&e.full, tooLarge, absentTime) {
		return e.giveUp("the limits of the journal leave no space for earlier days")
	}
	return err
}

// giveUp gives the earlier days up. The error is errGivenUp, or that of the disk.
func (e *earlier) giveUp(reason string) error {
	days := len(e.cfg.Journal.Earlier())
	if err := journal.ForgetEarlier(e.cfg.Journal); err != nil {
		return err
	}
	e.log.Warn("earlier days of the journal are given up", "reason", reason, "days", days)
	return errGivenUp
}

// Errors of earlier days that no node provides now.
var (
	errAbsent = errors.New("no node that answers provides this day")
	errFiles  = errors.New("start the node that was copied, or stop this node and remove its folder journal to copy another one")
)

// choose returns the offer of the node that provides the next day. It prefers the node that was
// copied, then one that is not the sequencer. After every three failures of a node it prefers the
// others. It gives the days up in two cases. The node that was copied has removed the next one, and
// for 10 minutes all nodes that this one has heard of have answered that they do not have it. Or
// for 24 hours no node that answered had it.
func (e *earlier) choose(offers []copying.Offer) (best *copying.Offer, err error) {
	left, source := e.cfg.Journal.Earlier(), e.cfg.Journal.EarlierFrom()
	if len(left) == 0 { // the limits have removed a day after them
		return nil, errGivenUp
	}
	next := left[len(left)-1]
	isNext := func(d copying.Day) bool { return d.Date == next.Date && d.Hash == next.Hash }
	order := func(o *copying.Offer) int {
		n := 4 * (e.failures[o.Node] / samePeer)
		if o.Node != source {
			n += 2
		}
		if o.Leads {
			n++
		}
		return n
	}
	removed, there, otherFiles := false, false, false
	for i := range offers {
		o := &offers[i]
		has := slices.ContainsFunc(o.Days, isNext)
		there, otherFiles = there || has, otherFiles || has && o.JournalID != e.cfg.Journal.ID()
		if o.Node == source && !has && o.Reason == "" && !slices.ContainsFunc(o.Earlier, isNext) {
			removed = true
		}
		if has && o.Reason == "" && o.JournalID == e.cfg.Journal.ID() && (best == nil || order(o) < order(best)) {
			best = o
		}
	}
	for _, name := range e.others() {
		removed = removed && slices.ContainsFunc(offers, func(o copying.Offer) bool { return o.Node == name })
	}
	wasRemoved, isAway := lasts(&e.removed, removed && !there, absentTime), lasts(&e.away, !there, awayTime)
	switch {
	case best != nil:
		return best, nil
	case wasRemoved || isAway:
		return nil, e.giveUp("no node has them any more")
	case otherFiles:
		err = fmt.Errorf("the nodes that have this day have it in other files; %w", errFiles)
	default:
		err = errAbsent
	}
	return nil, fmt.Errorf("%s: %w%s", next.Date, err, reasons(offers))
}
