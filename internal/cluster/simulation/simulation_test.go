package simulation

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// profiles are the kinds of schedules.
func profiles() []profile {
	return []profile{
		{name: "calm", strict: true, oneEpoch: true},
		{name: "kills", kills: true, pauses: true, cuts: true, oneEpoch: true},
		{name: "lost-messages", strict: true, kills: true, pauses: true, truncate: true, oneEpoch: true},
		{name: "everything", strict: true, kills: true, pauses: true, cuts: true, truncate: true, disks: true},
	}
}

// setting returns the number in a variable of the environment.
func setting(t *testing.T, name string, otherwise int64) int64 {
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestSchedules runs schedules of all profiles, each with another seed: 40 of them, 100,000 if
// RUEDA_SOAK is set, or RUEDA_SCHEDULES. RUEDA_FIRST is the first seed. It goes on after a few
// failures.
func TestSchedules(t *testing.T) {
	t.Parallel()
	const few, mostFailures, progress = 40, 5, 1000
	n := int64(few)
	if os.Getenv("RUEDA_SOAK") != "" {
		n = 100_000
	}
	n = setting(t, "RUEDA_SCHEDULES", n)
	first, list := setting(t, "RUEDA_FIRST", 0), profiles()
	began := time.Now()
	var next, done, failures, events, resumes, epochs, copies atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < n && failures.Load() < mostFailures; i = next.Add(1) - 1 {
				seed := first + i
				w := newWorld(uint64(seed), list[seed%int64(len(list))], sound)
				if err := w.run(); err != nil {
					failures.Add(1)
					t.Error(err)
				}
				if done.Add(1)%progress == 0 {
					t.Logf("%d schedules, %d failed, in %v", done.Load(), failures.Load(), time.Since(began).Round(time.Second))
				}
				events.Add(int64(w.count))
				resumes.Add(int64(w.resumes))
				copies.Add(int64(w.copies))
				epochs.Add(int64(len(w.epochs)))
			}
		})
	}
	workers.Wait()
	t.Logf("figure: %d schedules, %d million events, %d reads of clients, %d epochs, %d copied journals, in %v", done.Load(), events.Load()/1e6, resumes.Load(), epochs.Load(), copies.Load(),
		time.Since(began).Round(time.Second))
}

// TestSeed runs one schedule again: RUEDA_SCHEDULE is a profile and a seed, such as
// "everything 17".
func TestSeed(t *testing.T) {
	name, seed, _ := strings.Cut(os.Getenv("RUEDA_SCHEDULE"), " ")
	if name == "" {
		t.Skip("RUEDA_SCHEDULE is not set")
	}
	n, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range profiles() {
		if p.name == name {
			if err := newWorld(n, p, sound).run(); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("there is no profile %q", name)
}

// TestSameSeed requires that a seed determines its schedule.
func TestSameSeed(t *testing.T) {
	t.Parallel()
	p := profiles()[3]
	a, b := newWorld(3, p, sound), newWorld(3, p, sound)
	if err := a.run(); err != nil {
		t.Fatal(err)
	}
	if err := b.run(); err != nil {
		t.Fatal(err)
	}
	if a.count != b.count || a.contents != b.contents || strings.Join(a.trace, "\n") != strings.Join(b.trace, "\n") {
		t.Errorf("%d events and %d rows, then %d and %d", a.count, a.contents, b.count, b.contents)
	}
}

// TestBrokenFences requires that each deliberate fault is found.
func TestBrokenFences(t *testing.T) {
	t.Parallel()
	list := profiles()
	kills, everything := list[1], list[3]
	for _, c := range []struct {
		name string
		breakage
		profile
	}{
		{"the stream appends whatever its newest message is", noFence, kills},
		{"a leader numbers before its term row is acknowledged", earlyNumbers, kills},
		{"an append without an answer counts as done", blindTrust, kills},
		{"a candidate asks nobody", noCensus, everything},
		{"registered nodes that do not answer count as not registered", noPatience, everything},
		{"nodes do not learn that a connection has ended", endlessOffice, everything},
		{"nodes that have lost rows state that they did not", proudDisk, everything},
		{"nodes show rows before they know the log", earlyShow, list[0]},
		{"an older disk counts as that of the newest registration", sameNumber, everything},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(1000) {
				if err := newWorld(seed, c.profile, c.breakage).run(); err != nil {
					first, _, _ := strings.Cut(err.Error(), "\n")
					t.Log(first)
					return
				}
			}
			t.Error("was not found in 1,000 schedules")
		})
	}
}
