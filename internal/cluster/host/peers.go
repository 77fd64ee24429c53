package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ruedahq/rueda/internal/cluster"
	"github.com/ruedahq/rueda/internal/cluster/jetstream"
	"github.com/ruedahq/rueda/internal/engine/journal"
)

const (
	fetchGroup = 256 << 10 // bytes of a group that one node sends to another
	fetchBytes = 8 << 20   // bytes of an answer
	fetchTime  = 10 * time.Second

	maxFetched = 4 * fetchBytes // bytes of an answer as JSON
	partCost   = 1 << 10        // what a part of an answer counts in addition to its bytes
	maxAsked   = 64             // requests of other nodes that wait or are being answered
)

// errNotContinuous means that a journal lacks rows of a range.
var errNotContinuous = errors.New("the journal lacks rows")

// fetchRequest asks for rows.
type fetchRequest struct {
	cluster.Fetch
	Numbers uint32 // of the instruments that the node knows
}

// groupsOf returns the rows of a journal after one position and up to another. The definition of
// each instrument comes before its first row. Definitions with numbers above known come first,
// because such instruments may have no rows yet. If the rows are too many for one answer, it
// returns the first ones. The error is errNotContinuous if rows are missing, or that of the
// journal.
func groupsOf(ctx context.Context, j *journal.Journal, after, upto uint64, known uint32) (list []cluster.Group, err error) {
	var enc cluster.Encoder
	prev, last, total := after, after, 0
	defined := map[uint32]bool{}
	cut := func() {
		g := enc.Group(prev)
		list, total, prev = append(list, g), total+len(g.Data), g.Last
	}
	define := func(number uint32) {
		if defined[number] {
			return
		}
		defined[number] = true
		if def, ok := j.Instrument(number); ok {
			if text, err := json.Marshal(def); err == nil {
				enc.Define(number, text)
			}
		}
	}
	for n := known; n < j.Numbers(); {
		n++
		if define(n); enc.Len() >= fetchGroup {
			cut()
		}
	}
	var failed error
	err = j.Scan(ctx, journal.ScanStart{Position: after}, nil, ^journal.Checkpoints, func(r *journal.Row) bool {
		if r.Position <= after {
			return true
		}
		if r.Position > upto {
			return false
		}
		if r.Position != last+1 || r.Kind == journal.Gap {
			failed = fmt.Errorf("after position %d: %w", last, errNotContinuous)
			return false
		}
		if !enc.Fits(r) || enc.Len() >= fetchGroup {
			if cut(); total >= fetchBytes {
				return false
			}
		}
		define(r.Instrument)
		enc.Append(r)
		last = r.Position
		return true
	})
	if enc.Len() > 0 {
		cut()
	}
	if len(list) > 0 && last > after {
		return list, nil // the first rows are useful without the others
	}
	if err == nil && failed == nil && last < upto {
		failed = fmt.Errorf("after position %d: %w", last, errNotContinuous)
	}
	return nil, errors.Join(err, failed)
}

// fetch asks another node for rows.
func (h *Host) fetch(ctx context.Context, s *jetstream.Session, a cluster.Fetch) cluster.Event {
	request, err := json.Marshal(fetchRequest{a, h.cfg.Journal.Numbers()})
	if err != nil {
		return cluster.Fetched{Failed: true}
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	var f cluster.Fetched
	rest := maxFetched
	err = s.AskEach(ctx, subjectFetch, request, func(data []byte) error { return add(&f, &rest, data) })
	if h.failed("fetch rows of another node", err) || len(f.Groups) == 0 {
		return cluster.Fetched{Failed: true}
	}
	return f
}

// errTooMuch means that an answer with rows does not end.
var errTooMuch = errors.New("the other node sends more than one answer may have")

// add adds a part of an answer to the rows. rest is how many bytes the answer may still have.
func add(f *cluster.Fetched, rest *int, part []byte) error {
	begins := *rest == maxFetched
	if *rest -= len(part) + partCost; *rest < 0 {
		return errTooMuch
	}
	if begins {
		if err := json.Unmarshal(part, &f.From); err != nil {
			return fmt.Errorf("read the report of the node: %w", err)
		}
		return nil
	}
	var g cluster.Group
	if err := json.Unmarshal(part, &g); err != nil {
		return fmt.Errorf("read rows of the node: %w", err)
	}
	f.Groups = append(f.Groups, g)
	return nil
}

// answerFetch sends rows of the journal to a node that asked, if this node has them.
func (h *Host) answerFetch(f fetchRequest, m jetstream.Message) {
	if f.Node != "" && f.Node != h.name || !h.node.Serves(f.Fetch) {
		return
	}
	if h.asked.Add(1) > maxAsked {
		h.asked.Add(-1)
		return // the node asks again
	}
	report, s := h.node.Report(), h.session
	h.start(h.ofSession, h.generation, func(ctx context.Context) cluster.Event {
		defer h.asked.Add(-1)
		select {
		case h.fetches <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		defer func() { <-h.fetches }()
		h.cfg.Hub.Commit()
		groups, err := groupsOf(ctx, h.cfg.Journal, f.After.Position, min(f.Upto, report.Position), f.Numbers)
		if h.failed("read the journal for another node", err) || len(groups) == 0 {
			return nil
		}
		head, err := json.Marshal(report)
		if err == nil {
			err = s.Answer(m, head, true)
		}
		for i := 0; i < len(groups) && err == nil; i++ {
			var data []byte
			if data, err = json.Marshal(groups[i]); err == nil {
				err = s.Answer(m, data, i < len(groups)-1)
			}
		}
		h.failed("answer another node", err)
		return nil
	})
}
