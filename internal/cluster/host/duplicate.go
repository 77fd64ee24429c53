package host

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/ruedahq/rueda/internal/cluster"
)

// report is what a node sends to the others about itself.
type report struct {
	cluster.Report
	process
}

// process identifies a process of a node.
type process struct {
	Process uint64        // a random number; 0: of a node that does not state it
	Started int64         // Unix ns, by the clock of its machine
	Runs    time.Duration // since it has started; 0: of a node that does not state it
}

// duplicateCheck finds another running node with the name of this one, which is a mistake of the
// settings: each would take the lease of the other for its own.
type duplicateCheck struct {
	process
	name  string
	log   *slog.Logger
	other uint64 // number of the process that was heard last
	count int    // reports of it
}

// surelyRuns is how many reports show that a process runs. Those of an earlier process of this node
// may still arrive when it has ended.
const surelyRuns = 4

func newDuplicateCheck(name string, log *slog.Logger) duplicateCheck {
	return duplicateCheck{process: process{Process: rand.Uint64() | 1, Started: time.Now().UnixNano()}, name: name, log: log}
}

// at returns the process after it has run for a time.
func (p process) at(runs time.Duration) process {
	p.Runs = max(1, runs)
	return p
}

// heard handles a report with the name of this node. runs is how long this process has run. The
// error ends the process that started later, whatever the clocks of the machines say.
func (x *duplicateCheck) heard(r *report, runs time.Duration) error {
	if r.Runs == 0 || r.process.Process == x.process.Process {
		return nil
	}
	if r.process.Process != x.other {
		x.other, x.count = r.process.Process, 0
	}
	if x.count++; x.count != surelyRuns {
		return nil
	}
	started := time.Unix(0, r.Started).UTC().Format(time.RFC3339)
	if r.Runs < runs || r.Runs == runs && r.process.Process > x.process.Process {
		x.log.Error("another node with the name of this one was started", "node", x.name, "started", started)
		x.count = 0
		return nil
	}
	return fmt.Errorf("another running node of the cluster has the name %q (started %s): give this one another name with node in [cluster]", x.name, started)
}
