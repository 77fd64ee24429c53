package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(asNats); text != "" {
		if err := runNats(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	folder, err := os.MkdirTemp("", "rueda-cluster-test-")
	if err == nil {
		err = os.Setenv(programFolder, folder)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	if err := os.RemoveAll(folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(status)
}

// Sizes of a run. RUEDA_SOAK makes them those of a release: RUEDA_SOAK=10m is the time of the random
// kills, and RUEDA_CLIENTS the number of clients.
type scale struct {
	clients int
	time    time.Duration // of the random kills
	speed   float64       // of the simulated exchange
	every   time.Duration // between two trades of the producer, which all clients receive
	lease   string        // of the sequencer
	all     bool          // every pair is cut
}

// scaleOf returns the sizes of this run. Two cores deliver some ten thousand messages per second
// to sockets, one at a time, and the clients of the test need as much time as the edges. So many
// clients get few trades each.
func scaleOf(t *testing.T) scale {
	t.Helper()
	s := scale{clients: 100, time: 15 * time.Second, speed: 10, every: 20 * time.Millisecond}
	if text := os.Getenv("RUEDA_SOAK"); text != "" {
		s = scale{clients: 5000, time: 10 * time.Minute, speed: 0.03, every: 500 * time.Millisecond, lease: "2s", all: true}
		if d, err := time.ParseDuration(text); err == nil {
			s.time = d
		}
	}
	if text := os.Getenv("RUEDA_CLIENTS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("RUEDA_CLIENTS=%s is not a number of clients", text)
		}
		s.clients = n
	}
	return s
}

// recoveries are times without a trade at clients, and times from the end of a connection to that
// of the resume, by what has failed.
type recoveries struct{ silence, resume map[string][]time.Duration }

func newRecoveries() recoveries {
	return recoveries{silence: map[string][]time.Duration{}, resume: map[string][]time.Duration{}}
}

// measure calls a function that makes something fail and repairs it, waits until all clients have
// received more, and notes the longest silence of each. onlyEnded leaves out clients whose
// connection did not end.
func (x recoveries) measure(r *rig, all []*follower, kind string, onlyEnded bool, fault func()) {
	r.t.Helper()
	for _, f := range all {
		f.reset()
	}
	fault()
	r.awaitTrades(all, 3)
	for _, f := range all {
		silence, resume, ends := f.reset()
		if ends > 0 || !onlyEnded {
			x.silence[kind] = append(x.silence[kind], silence)
		}
		if resume > 0 {
			x.resume[kind] = append(x.resume[kind], resume)
		}
	}
}

// print prints the distributions.
func (x recoveries) print(t *testing.T) {
	t.Helper()
	for _, kind := range slices.Sorted(maps.Keys(x.silence)) {
		t.Logf("figure: silence of clients, %s: %s", kind, distribution(x.silence[kind]))
		if d := x.resume[kind]; len(d) > 0 {
			t.Logf("figure: from the end of a connection to that of the resume, %s: %s", kind, distribution(d))
		}
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil { // of Linux
		t.Logf("figure: load of the machine in 1, 5 and 15 minutes: %s", load)
	}
}

// distribution returns quantiles of times, which it sorts.
func distribution(d []time.Duration) string {
	if len(d) == 0 {
		return "none"
	}
	slices.Sort(d)
	at := func(q float64) time.Duration { return d[int(q*float64(len(d)-1))].Round(10 * time.Millisecond) }
	return fmt.Sprintf("p50 %v, p90 %v, p99 %v, max %v (%d)", at(0.5), at(0.9), at(0.99), at(1), len(d))
}

// TestKillEachProcessE2E kills each process in turn with kill -9 and starts it again, then random
// ones, and then cuts pairs of them off from each other, while clients follow and resume on all
// edges. No client loses or doubles a trade, each has the rows of the log, and all journals have
// the same rows.
func TestKillEachProcessE2E(t *testing.T) {
	s := scaleOf(t)
	r := startRig(t, rigOptions{nats: 3, edges: 3, postgres: true, relays: true, speed: s.speed, lease: s.lease, clients: s.clients})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer func() { cancel(); running.Wait() }()
	source := r.produce(ctx, &running, s.every, true)
	all := r.swarm(ctx, &running)
	r.awaitTrades(all, 20)
	r.checkStatus()
	t.Logf("%d clients follow", len(all))

	times := newRecoveries()
	times.measure(r, all, "nothing fails", false, func() { time.Sleep(2 * time.Second) })
	r.killEach(all, times)
	r.stopServers(all, times)
	r.killAtRandom(all, times, s.time)
	r.cutPairs(all, times, s.all)
	times.print(t)
	r.awaitReady(2 * time.Minute)
	source.check(t, r.checkAll(all, cancel, &running))
}

// killEach kills each process once.
func (r *rig) killEach(all []*follower, times recoveries) {
	r.t.Helper()
	for _, v := range r.victims() {
		kind := "kill -9 of " + v.kind
		if v.kind == "sequencer" && r.leader() != v.name {
			kind = "kill -9 of standby"
		}
		before := len(times.resume[kind])
		times.measure(r, all, kind, v.kind == "edge", func() {
			v.kill()
			time.Sleep(2 * time.Second)
			v.start()
		})
		r.awaitReady(2 * time.Minute)
		r.t.Logf("%s killed and started again; times of resumes: %s", v.name, distribution(times.resume[kind][before:]))
	}
}

// stopServers stops each NATS server with SIGTERM, as an upgrade does: a server that leads first gives
// that to another one.
func (r *rig) stopServers(all []*follower, times recoveries) {
	r.t.Helper()
	for _, p := range r.nats {
		times.measure(r, all, "SIGTERM of nats", false, func() {
			p.signal(syscall.SIGTERM)
			time.Sleep(2 * time.Second)
			p.start(r.t)
		})
		r.awaitReady(2 * time.Minute)
	}
}

// leader returns the name of the sequencer, as an edge knows it.
func (r *rig) leader() string { return r.status(r.edges[0]).Cluster.Leader }

// checkStatus checks what rueda status prints about the nodes.
func (r *rig) checkStatus() {
	r.t.Helper()
	leader := r.leader()
	for _, p := range r.nodes {
		s := r.status(p)
		c := &s.Cluster
		if !s.Ready || c.Name != "test" || c.Node != p.name || c.Role != p.kind || !c.Connected || c.Leads != (p.name == leader) || c.Leader != leader ||
			c.Term == 0 || c.Position == 0 || len(c.Nodes) != len(r.nodes)-1 {
			r.t.Errorf("status of %s, with the sequencer %s: %+v", p.name, leader, s)
		}
		for _, n := range c.Nodes {
			if n.Position == 0 || n.Clients != (n.Name[0] == 'e') {
				r.t.Errorf("status of %s about %s: %+v", p.name, n.Name, n)
			}
		}
	}
}

// killAtRandom kills one or two random processes at a time, and starts them again.
func (r *rig) killAtRandom(all []*follower, times recoveries, length time.Duration) {
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	list, kills := r.victims(), 0
	for until := time.Now().Add(length); time.Now().Before(until); {
		rng.Shuffle(len(list), func(i, k int) { list[i], list[k] = list[k], list[i] })
		some := list[:1+rng.IntN(2)]
		times.measure(r, all, "random kills", false, func() {
			for _, v := range some {
				v.kill()
				time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
			}
			time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
			for _, v := range some {
				v.start()
			}
		})
		kills += len(some)
	}
	r.t.Logf("figure: %d random kills", kills)
}

// cutPairs cuts pairs of processes off from each other, and nodes from all NATS servers.
// Each pair is cut once, or some of them.
func (r *rig) cutPairs(all []*follower, times recoveries, each bool) {
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 2))
	type pair struct{ from, to string }
	var pairs []pair
	for _, l := range r.links {
		pairs = append(pairs, pair{l.from, l.to})
	}
	for _, p := range r.nodes {
		pairs = append(pairs, pair{p.name, "all NATS servers"})
	}
	rng.Shuffle(len(pairs), func(i, k int) { pairs[i], pairs[k] = pairs[k], pairs[i] })
	if !each {
		pairs = pairs[:8]
		pairs = append(pairs, pair{r.leader(), "all NATS servers"})
	}
	for _, p := range pairs {
		state, how := cut, "cut"
		if rng.IntN(2) == 0 {
			state, how = silent, "silent"
		}
		r.t.Logf("between %s and %s: %s", p.from, p.to, how)
		times.measure(r, all, "partition of a pair", false, func() {
			r.setLinks(p.from, p.to, state)
			time.Sleep(3 * time.Second)
			r.setLinks(p.from, p.to, passing)
		})
	}
}

// setLinks changes the relays between two processes, in both directions.
func (r *rig) setLinks(from, to string, s relayState) {
	for _, l := range r.links {
		toAll := to == "all NATS servers" && l.from == from && l.to != "postgres"
		if toAll || l.from == from && l.to == to || l.from == to && l.to == from {
			l.set(s)
		}
	}
}

// TestPausedLeaderE2E stops the sequencer past its lease (SIGSTOP) and continues it. Another one
// takes its place, and no row of the first one follows.
func TestPausedLeaderE2E(t *testing.T) {
	r := newRig(t, 1, 2)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer func() { cancel(); running.Wait() }()
	all := []*follower{r.follow(ctx, &running), r.follow(ctx, &running)}
	r.awaitTrades(all, 20)
	for range 3 {
		for _, p := range r.nodes[:2] { // one of them leads
			p.signal(syscall.SIGSTOP)
			time.Sleep(4 * time.Second)
			r.awaitTrades(all, 5)
			p.signal(syscall.SIGCONT)
			r.awaitTrades(all, 5)
		}
	}
	r.checkAll(all, cancel, &running)
}
