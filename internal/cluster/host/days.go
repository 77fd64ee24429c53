package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ruedahq/rueda/internal/cluster/dayhash"
)

const (
	daysEvery  = 10 * time.Second // between two messages with the hashes of closed days
	readEvery  = time.Minute      // between the readings of two closed days
	readPace   = 1 << 20          // bytes per second of closed days that are read
	shownBytes = 12               // of a hash in a log line
)

// days compares the closed days of this node with those of the others.
type days struct {
	name       string
	log        *slog.Logger
	checker    *dayhash.Checker
	comparison dayhash.Comparison
}

// keepDays sends the hashes of closed days, and reads the days again, until ctx ends.
func (h *Host) keepDays(ctx context.Context) {
	d := &h.days
	var readAt time.Time
	for {
		if now := time.Now(); !now.Before(readAt) {
			_, bytes, err := d.checker.Read(ctx)
			if readAt = now.Add(max(readEvery, time.Duration(bytes/readPace)*time.Second)); err != nil {
				d.log.Error("a closed day of the journal cannot be read", "error", err)
			}
		}
		list := d.checker.Days()
		d.report(d.comparison.Own(list))
		if text, err := json.Marshal(dayhash.Report{Node: h.name, Days: list}); err == nil {
			h.pass(ctx, arrival{note: text})
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(daysEvery):
		}
	}
}

// heard takes the message of another node.
func (d *days) heard(data []byte) {
	var r dayhash.Report
	if json.Unmarshal(data, &r) == nil && r.Node != "" && r.Node != d.name {
		d.report(d.comparison.Heard(r))
	}
}

// Errors of closed days, with the next step.
var (
	errUnreadable = errors.New("this node cannot read the day: stop it and remove its folder journal; it then copies the journal of another node")
	errMinority   = errors.New("most nodes have another hash: stop this node and remove its folder journal; it then copies the journal of another node")
	errMajority   = errors.New("most nodes have the hash of this one: stop the other node and remove its folder journal; it then copies the journal of another node")
	errTie        = errors.New("equally many nodes have each hash: find the right one with a backup; then stop the wrong nodes and remove their folder journal")
)

// report logs new differences.
func (d *days) report(list []dayhash.Difference) {
	for _, x := range list {
		next := errTie
		switch {
		case x.Node == "":
			next = errUnreadable
		case x.Differ > x.Same+1:
			next = errMinority
		case x.Differ < x.Same+1:
			next = errMajority
		}
		err := fmt.Errorf("day %s: %w", x.Date, next)
		if x.Node != "" {
			err = fmt.Errorf("day %s: node %s has the hash %.*s, this node %.*s: %w", x.Date, x.Node, shownBytes, x.Other, shownBytes, x.Own, next)
		}
		d.log.Error("a closed day of the journal differs between nodes", "error", err)
	}
}
