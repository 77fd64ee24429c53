package host

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ruedahq/rueda/internal/cluster"
	"github.com/ruedahq/rueda/internal/cluster/jetstream"
)

// Subjects of messages between nodes.
const (
	subjectReport = "report"
	subjectCensus = "census"
	subjectFetch  = "fetch"
	subjectCopy   = "copy" // of the journal; also with the name of a node
	subjectDays   = "days"

	subjectSessions = "sessions"
)

// census is a request of a node.
type census struct {
	From string
	ID   uint64
}

// dialRetry is the time between two attempts to connect.
const dialRetry = 200 * time.Millisecond

// dial connects on a goroutine, until it succeeds. It waits first if the last session has just
// begun, because NATS may accept connections long before it has a leader.
func (h *Host) dial(ctx context.Context) {
	if h.dialing {
		return
	}
	h.dialing = true
	wait := max(0, dialRetry-time.Since(h.dialed))
	h.dialed = time.Now().Add(wait)
	h.tasks.Go(func() {
		if !sleep(ctx, wait) {
			return
		}
		var logged time.Time
		for {
			s, err := jetstream.Dial(ctx, h.cfg.Setup.log)
			if err == nil {
				if ctx.Err() != nil {
					s.Close()
					return
				}
				h.pass(ctx, arrival{session: s})
				return
			}
			if time.Since(logged) > 10*time.Second && ctx.Err() == nil {
				logged = time.Now()
				h.log.Warn("no connection to the log of the cluster, trying again", "error", err)
			}
			if !sleep(ctx, dialRetry) {
				return
			}
		}
	})
}

// sleep waits for a time. It returns false if ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// join begins a session.
func (h *Host) join(ctx context.Context, s *jetstream.Session) error {
	h.dialing, h.session, h.attaching = false, s, false
	h.generation++
	h.ofSession, h.end = context.WithCancel(ctx)
	h.joined.Store(true)
	if err := writeName(h.cfg.Setup.folder, h.cfg.Setup.log.Cluster); err != nil {
		return err
	}
	for _, subject := range []string{
		subjectReport, subjectReport + "." + h.name, subjectCensus, subjectFetch, subjectCopy, subjectCopy + "." + h.name, subjectDays,
	} {
		if err := s.Listen(subject); err != nil {
			return h.lose(ctx, err)
		}
	}
	if err := h.sharing.join(s); err != nil {
		return h.lose(ctx, err)
	}
	generation, of := h.generation, h.ofSession
	lease := func(holder string, revision uint64) {
		h.pass(of, arrival{generation: generation, event: cluster.LeaseRead{Revision: revision, Holder: holder}})
	}
	if err := h.handle(ctx, cluster.Connected{}); err != nil || h.session != s {
		return err
	}
	h.tasks.Go(func() {
		holder, revision, err := s.Lease(of)
		if err == nil {
			lease(holder, revision)
			err = s.WatchLease(of, lease)
		}
		if err != nil {
			h.pass(of, arrival{generation: generation, err: err})
		}
	})
	h.log.Info("connected to the log of the cluster", "node", h.name, "server", s.Server())
	if v := s.Outdated(); v != "" && h.warnings.due("outdated") {
		h.log.Warn("nats-server is older than 2.12, and this program is not tested with it: see docs/cluster.md", "version", v)
	}
	if h.grown {
		h.tasks.Go(func() {
			foreign, err := isForeign(of, s, h.cfg.Setup.log.Cluster, h.cfg.Journal.Epoch())
			if !h.failed("read the beginning of the log", err) && foreign {
				h.pass(of, arrival{generation: generation, foreign: true})
			}
		})
	}
	return nil
}

// writeLease writes the lease. After an error, which may come after the change, it reads it again.
func (h *Host) writeLease(s *jetstream.Session, a cluster.WriteLease) {
	generation := h.generation
	h.start(h.ofSession, generation, func(ctx context.Context) cluster.Event {
		holder := h.name
		if a.Release {
			holder = ""
		}
		revision, err := s.WriteLease(ctx, holder, a.Expected)
		if err == nil {
			return cluster.LeaseWritten{Expected: a.Expected, Done: true, Revision: revision}
		}
		h.pass(ctx, arrival{generation: generation, event: cluster.LeaseWritten{Expected: a.Expected}})
		holder, revision, err = s.Lease(ctx)
		if h.failed("read the lease", err) {
			return nil
		}
		return cluster.LeaseRead{Revision: revision, Holder: holder, Checked: true}
	})
}

// leave closes the session.
func (h *Host) leave() {
	if h.session == nil {
		return
	}
	h.end()
	h.session.Close()
	h.session = nil
	h.sharing.leave()
	h.joined.Store(false)
}

// lose ends the session after an error, and connects again.
func (h *Host) lose(ctx context.Context, cause error) error {
	if h.session == nil {
		return nil
	}
	h.log.Warn("session with the log of the cluster ended", "error", cause)
	h.leave()
	h.dial(ctx)
	return h.handle(ctx, cluster.Disconnected{})
}

// messages returns the channel of the session, unless a consumer is being made: its messages come
// after the answer.
func (h *Host) messages() <-chan *jetstream.Arrival {
	if h.session == nil || h.attaching {
		return nil
	}
	return h.session.Messages()
}

// closed returns a channel that is closed when the session has ended.
func (h *Host) closed() <-chan struct{} {
	if h.session == nil {
		return nil
	}
	return h.session.Closed()
}

// attach makes a consumer.
func (h *Host) attach(s *jetstream.Session, from uint64) {
	h.attaching = true
	generation, of := h.generation, h.ofSession
	h.tasks.Go(func() {
		first, last, err := s.Attach(of, from)
		h.pass(of, arrival{generation: generation, event: cluster.Attached{First: first, Last: last}, err: err})
	})
}

// message handles a message that has arrived.
func (h *Host) message(ctx context.Context, arrived *jetstream.Arrival) error {
	m, err := h.session.Parse(arrived)
	if err != nil {
		return h.lose(ctx, err)
	}
	switch m.Kind {
	case jetstream.Rows:
		return h.handle(ctx, cluster.Received{Seq: m.Sequence, Data: m.Data})
	case jetstream.Note:
		return h.noted(ctx, m)
	}
	return nil
}

// noted handles a message of another node. One that cannot be read is ignored, because it does not
// come from a node of this version.
func (h *Host) noted(ctx context.Context, m jetstream.Message) error {
	switch m.Subject {
	case subjectCensus:
		var c census
		if json.Unmarshal(m.Data, &c) == nil {
			return h.handle(ctx, cluster.CensusAsked{From: c.From, ID: c.ID})
		}
	case subjectFetch:
		var f fetchRequest
		if json.Unmarshal(m.Data, &f) == nil {
			h.answerFetch(f, m)
		}
	case subjectCopy, subjectCopy + "." + h.name:
		h.answerCopy(m)
	case subjectDays:
		h.days.heard(m.Data)
	default: // report
		var r report
		if json.Unmarshal(m.Data, &r) != nil {
			return nil
		}
		if r.Node == h.name {
			return h.duplicates.heard(&r, time.Since(h.began))
		}
		return h.handle(ctx, cluster.Reported{Report: r.Report})
	}
	return nil
}

// send sends a message to other nodes, as JSON.
func (h *Host) send(subject string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode a message to the nodes: %w", err)
	}
	return h.session.Send(subject, data)
}
