package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// olderCommit is a commit whose nodes may be mixed with those of this tree.
const olderCommit = "86e0b0f"

// older builds the program of the older commit. It skips the test if the history is not there, or
// fails it if RUEDA_REQUIRE_ALL is set.
func older(t *testing.T) (program string) {
	t.Helper()
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", append([]string{"-C", "../.."}, args...)...).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	if out, err := git("rev-parse", "--verify", "--quiet", olderCommit+"^{commit}"); err != nil {
		if os.Getenv("RUEDA_REQUIRE_ALL") != "" {
			t.Fatalf("the history does not have %s: %v, %s", olderCommit, err, out)
		}
		t.Skipf("the history does not have %s, so there is no older version to upgrade from", olderCommit)
	}
	folder := t.TempDir()
	tree := filepath.Join(folder, "tree")
	if out, err := git("worktree", "add", "--detach", tree, olderCommit); err != nil {
		t.Fatalf("git worktree: %v, %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := git("worktree", "remove", "--force", tree); err != nil {
			t.Errorf("git worktree: %v, %s", err, out)
		}
	})
	program = filepath.Join(folder, "rueda")
	if err := build(tree, program); err != nil {
		t.Fatal(err)
	}
	return program
}

// TestRollingUpgradeE2E upgrades the nodes of a cluster from an older version under load: one edge
// after another, and then the sequencers, the one that leads last. No client loses or doubles a
// trade, and the clients of a node leave it one after another.
func TestRollingUpgradeE2E(t *testing.T) {
	newer, err := rueda()
	if err != nil {
		t.Fatal(err)
	}
	const drain = 4 * time.Second
	r := startRig(t, rigOptions{nats: 3, edges: 3, postgres: true, program: older(t), drain: drain.String(), speed: 20, clients: 60})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer func() { cancel(); running.Wait() }()
	source := r.produce(ctx, &running, 20*time.Millisecond, false)
	all := r.swarm(ctx, &running)
	r.awaitTrades(all, 20)
	r.program = newer // for status too
	times := newRecoveries()
	upgrade := func(p *process) {
		times.measure(r, all, "upgrade of "+p.kind, p.kind == "edge", func() {
			p.signal(syscall.SIGTERM)
			command := p.command
			p.use(func() *exec.Cmd {
				cmd := command()
				cmd.Path, cmd.Args[0] = newer, newer
				return cmd
			})
			p.start(t)
		})
		r.awaitReady(2 * time.Minute)
		t.Logf("%s has the new version", p.name)
	}
	for _, p := range r.edges {
		for _, f := range all {
			f.forget()
		}
		upgrade(p)
		checkSpread(t, all, drain)
	}
	sequencers := slices.Clone(r.nodes[:2])
	if leader := r.leader(); sequencers[0].name == leader {
		slices.Reverse(sequencers)
	}
	for _, p := range sequencers {
		upgrade(p)
	}
	r.awaitTrades(all, 20)
	r.checkStatus()
	times.print(t)
	source.check(t, r.checkAll(all, cancel, &running))
}

// checkSpread checks that the connections of an edge have not ended at once, and that clients were
// asked to leave.
func checkSpread(t *testing.T, all []*follower, drain time.Duration) {
	t.Helper()
	var ends []time.Time
	hints := 0
	for _, f := range all {
		f.mu.Lock()
		ends, hints = append(ends, f.at...), hints+f.hints
		f.mu.Unlock()
	}
	if len(ends) < 10 {
		t.Fatalf("only %d connections ended", len(ends))
	}
	slices.SortFunc(ends, time.Time.Compare)
	spread := ends[len(ends)-1].Sub(ends[0])
	t.Logf("figure: %d connections ended over %v, %d with a hint", len(ends), spread.Round(10*time.Millisecond), hints)
	if spread < drain/2 || hints == 0 {
		t.Errorf("%d connections ended over %v of a drain of %v, with %d hints", len(ends), spread, drain, hints)
	}
}
