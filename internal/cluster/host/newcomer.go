package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/cluster"
	"github.com/ruedahq/rueda/internal/cluster/copying"
	"github.com/ruedahq/rueda/internal/cluster/jetstream"
)

// ErrCopied means that a new node has copied the journal of another one. The process must be
// started again, and then uses it.
var ErrCopied = errors.New("the journal of another node of the cluster was copied: start the process again to use it")

const (
	maxOffers    = 256
	offersWait   = 300 * time.Millisecond // after the first offer, for those of other nodes
	answerWait   = 2 * time.Second        // for the first offer
	newcomerWait = 15 * time.Second       // for a node that has rows
	copyRetry    = 2 * time.Second        // after an attempt that failed
	copyMost     = 30 * time.Second       // the same, after many copies that failed
	logEvery     = 10 * time.Second       // between two lines about such attempts
	samePeer     = 3                      // attempts with a node, before another one is asked
	strandedWait = 30 * time.Second       // without rows, before the process starts again
)

// newcomer obtains a journal for a new node, so that the node can follow the log.
type newcomer struct {
	*Host
	copier   *copying.Copier
	began    time.Time // of the time without a node that offers its journal
	logged   time.Time
	failures map[string]int // by node
	failed   int            // copies that failed
	source   string         // node that is copied
}

// obtain copies the journal of another node, if the log does not have all rows that the others
// have. It returns nil if the log can be followed, or if nobody has rows, or when ctx ends. The
// error is ErrCopied.
func (h *Host) obtain(ctx context.Context) error {
	if h.cfg.Journal.Newest() > 0 || len(h.cfg.Journal.Days()) > 0 {
		return nil
	}
	n := &newcomer{Host: h, began: time.Now(), failures: map[string]int{}}
	n.copier = &copying.Copier{Journal: h.cfg.Setup.journal}
	defer h.copier.Store(nil)
	defer h.copyProblem.Store(nil)
	defer h.obtaining.Store(false)
	for wait := copyRetry; ctx.Err() == nil; {
		failed := n.failed
		follows, err := n.try(ctx)
		if follows || errors.Is(err, ErrCopied) {
			return err
		}
		if err != nil {
			text := err.Error()
			h.copyProblem.Store(&text)
		}
		if err != nil && ctx.Err() == nil && time.Since(n.logged) > logEvery {
			n.logged = time.Now()
			h.log.Warn("this new node has no journal yet, trying again", "error", err)
		}
		if sleep(ctx, wait); n.failed > failed {
			wait = min(2*wait, copyMost)
		} else {
			wait = copyRetry
		}
	}
	return nil
}

// errAlone means that no node has offered its journal.
var errAlone = errors.New("rows from before the stream may be missing, and no other node offers its journal: start a node that has rows")

// try makes one attempt. follows reports that the node can follow the log now.
func (n *newcomer) try(ctx context.Context) (follows bool, err error) {
	s, err := jetstream.Dial(ctx, n.cfg.Setup.log)
	if n.obtaining.Store(err == nil); err != nil {
		return false, err
	}
	defer s.Close()
	offers, err := offersOf(ctx, s, n.name)
	if err != nil {
		return false, err
	}
	if err := writeName(n.cfg.Setup.folder, n.cfg.Setup.log.Cluster); err != nil {
		return false, err
	}
	epoch, begins, err := beginOf(ctx, s, n.cfg.Setup.log.Cluster)
	if err != nil {
		return false, err
	}
	earlier := func(o copying.Offer) bool { return len(o.Epochs) > 0 && !slices.Equal(o.Epochs, []string{epoch}) }
	if slices.ContainsFunc(offers, earlier) || epoch == "" && n.cfg.Setup.settings.Role == roleEdge {
		begins = false // there are rows of earlier epochs, or there may be
	}
	usable := slices.DeleteFunc(slices.Clone(offers), func(o copying.Offer) bool { return o.Reason != "" })
	if len(usable) > 0 {
		n.began = time.Now()
	}
	if len(usable) == 0 {
		err = fmt.Errorf("%w%s", errAlone, reasons(offers))
		if !begins && time.Since(n.began) > newcomerWait {
			n.log.Warn("this new node follows the log without earlier rows", "error", err)
			begins = true
		}
	}
	if begins {
		return true, nil
	}
	if len(usable) == 0 {
		return false, err
	}
	from := n.choose(usable)
	n.copier.Ask = askOn(s)
	n.Host.copier.Store(n.copier)
	if from.Node != n.source {
		n.source = from.Node
		n.log.Info("copying the journal of another node", "node", from.Node)
	}
	if err := n.copier.Copy(ctx, from, offers); err != nil {
		if errors.As(err, new(*copying.PeerError)) || errors.Is(err, copying.ErrSpace) { // another node may do better
			n.failures[from.Node]++
			n.failed++
		}
		return false, err
	}
	n.log.Info("the journal of another node was copied and verified; this process ends, and must be started again", "node", from.Node)
	return false, fmt.Errorf("%w (node %s)", ErrCopied, from.Node)
}

// askOn returns a function that asks nodes in a session.
func askOn(s *jetstream.Session) copying.Ask {
	return func(ctx context.Context, node string, request []byte, f func([]byte) error) error {
		return s.AskEach(ctx, subjectCopy+"."+node, request, f)
	}
}

// reasons returns why nodes do not offer their journals, to follow an error; "": all do.
func reasons(offers []copying.Offer) (text string) {
	for _, o := range offers {
		if o.Reason != "" {
			text += fmt.Sprintf("; node %s: %s", o.Node, o.Reason)
		}
	}
	return text
}

// offersOf asks all nodes except this one for offers.
func offersOf(ctx context.Context, s *jetstream.Session, own string) (list []copying.Offer, err error) {
	request, err := json.Marshal(copying.Request{Op: copying.OpOffer})
	if err != nil {
		return nil, fmt.Errorf("encode a request: %w", err)
	}
	err = s.Gather(ctx, subjectCopy, request, answerWait, offersWait, func(data []byte) bool {
		if o, ok := copying.ParseOffer(data); ok && o.Node != own {
			list = append(list, *o)
		}
		return len(list) < maxOffers
	})
	slices.SortFunc(list, func(a, b copying.Offer) int { return cmp.Compare(a.Node, b.Node) })
	return list, err
}

// beginOf returns the epoch of the oldest message of the stream. begins reports whether the first
// epoch of the cluster begins with it, so that no rows are before it. It is also true for a stream
// without messages, and for one of another cluster or version, which the state machine refuses.
func beginOf(ctx context.Context, s *jetstream.Session, name string) (epoch string, begins bool, err error) {
	data, err := s.ReadFirst(ctx)
	if err != nil {
		return "", false, err
	}
	var b cluster.Batch
	if err := b.Decode(name, data); err != nil {
		return "", len(data) == 0 || errors.Is(err, cluster.ErrCluster) || errors.Is(err, cluster.ErrVersion), nil
	}
	return b.Epoch, b.Kind == cluster.TermRow && b.NewEpoch && b.Prev == 0, nil
}

// isForeign reports whether the log has begun without a node whose journal has an epoch, and has
// lost its first rows. A log that has them shows the same when the node follows it.
func isForeign(ctx context.Context, s *jetstream.Session, name, epoch string) (bool, error) {
	first, begins, err := beginOf(ctx, s, name)
	if err != nil || first == "" || begins || first == epoch {
		return false, err
	}
	_, data, err := s.ReadLast(ctx)
	if err != nil {
		return false, err
	}
	var b cluster.Batch
	return b.Decode(name, data) == nil && b.Epoch != epoch, nil
}

// choose returns the offer to use: the one of the node whose copy has begun, perhaps in an earlier
// process, unless that node failed several times. Otherwise it prefers the fewest failures, then
// the fewest missing days, then the most epochs and closed days, then a node that is not the
// sequencer, and then the newest rows.
func (n *newcomer) choose(usable []copying.Offer) *copying.Offer {
	begun := n.copier.Begun()
	if p := n.copier.Progress(); p != nil {
		begun = p.Node // its files may have been wrong, and were then removed
	}
	if f := n.failures[begun]; f == 0 || f%samePeer != 0 {
		for i := range usable {
			if usable[i].Node == begun {
				return &usable[i]
			}
		}
	}
	leads := func(o *copying.Offer) int {
		if o.Leads {
			return 1
		}
		return 0
	}
	best := &usable[0]
	for i := range usable {
		o := &usable[i]
		if cmp.Or(cmp.Compare(n.failures[o.Node], n.failures[best.Node]), cmp.Compare(len(o.Earlier), len(best.Earlier)),
			cmp.Compare(len(best.Epochs), len(o.Epochs)), cmp.Compare(len(best.Days), len(o.Days)), cmp.Compare(leads(o), leads(best)), cmp.Compare(best.Position, o.Position)) < 0 {
			best = o
		}
	}
	return best
}

// copyProgress says how far a new node is, and why it makes no progress; nil: it is not copying.
func (h *Host) copyProgress() error {
	problem := h.copyProblem.Load()
	c := h.copier.Load()
	var text string
	switch {
	case c == nil && problem == nil:
		return nil
	case c == nil:
		text = "no journal of another node is copied yet"
	default:
		text = "copying the journal of another node"
		if p := c.Progress(); p != nil && p.Bytes > 0 {
			text = fmt.Sprintf("copying the journal of %s: %d of %d MiB", p.Node, p.Done>>20, p.Bytes>>20)
		}
	}
	if problem != nil {
		return fmt.Errorf("%s; last attempt: %s", text, *problem)
	}
	return errors.New(text)
}

// answerCopy answers a request of a new node about the journal of this one.
func (h *Host) answerCopy(m jetstream.Message) {
	var r copying.Request
	if json.Unmarshal(m.Data, &r) != nil || r.Op != copying.OpOffer && m.Subject == subjectCopy {
		return
	}
	if h.asked.Add(1) > maxAsked {
		h.asked.Add(-1)
		return // the node asks again
	}
	s, now := h.session, copying.Status{Leads: h.leading != nil, Journal: fmt.Sprint(h.began.UnixNano(), " ", h.epochs)}
	state, ok := h.node.StateToSend()
	if now.State = state; !ok {
		now.Reason = "it knows no term of the log yet, or has rows that are not in the log"
	}
	source := copying.Source{Node: h.name, Folder: h.cfg.Setup.journal, Journal: h.cfg.Journal, Commit: h.cfg.Hub.Commit}
	h.start(h.ofSession, h.generation, func(ctx context.Context) cluster.Event {
		defer h.asked.Add(-1)
		select {
		case h.copies <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		defer func() { <-h.copies }()
		err := source.Answer(ctx, r, now, func(data []byte, more bool) error { return s.Answer(m, data, more) })
		h.failed("answer a new node", err)
		return nil
	})
}

// errStranded means that a new node can get its rows from nobody.
var errStranded = errors.New("this node has no rows, and the stream does not have the first ones: start the process again, which then asks the other nodes for their journals")

// stranded returns an error if the node has no rows and cannot get them from the log, so that a
// new start asks the other nodes again.
func (h *Host) stranded() error {
	s := h.node.Status()
	if h.cfg.Journal.Newest() > 0 || s.End == 0 || s.Epoch != "" && !s.Blind || h.session == nil || h.leading != nil {
		h.strandedAt = time.Time{}
		return nil
	}
	if h.strandedAt.IsZero() {
		h.strandedAt = time.Now()
	}
	if time.Since(h.strandedAt) < strandedWait {
		return nil
	}
	return errStranded
}
