package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/bench/pattern"
	"github.com/ruedahq/rueda/bench/proc"
	"github.com/ruedahq/rueda/bench/scenario"
)

// TestMain also runs the server and the load program, because a measurement starts its own
// executable again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if done, err := role(os.Args[1:], os.Stdin, os.Stdout); done {
			exit(err)
		}
	}
	os.Exit(m.Run())
}

// TestEveryServerDelivers checks that every installed server delivers every message to all
// subscribers, in order.
func TestEveryServerDelivers(t *testing.T) {
	// With the race detector each process would sleep for a second at its end.
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, rate := range []float64{0, 2000} {
		p := plan{rounds: 1, warm: 50 * time.Millisecond, window: 100 * time.Millisecond, rate: rate}
		all, err := choose(exe, &p, t.Output())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			for _, batch := range []int{1, 16} {
				f, err := p.measure(t.Context(), exe, &c, 9, batch)
				if err != nil {
					t.Errorf("%s, batches of %d: %v", c.name, batch, err)
					continue
				}
				if f.Error != "" || f.Lost != 0 || f.PerSecond <= 0 || f.CPU <= 0 || f.Resident <= 0 || f.Bytes < 140 || f.Bytes > 200 {
					t.Errorf("%s, batches of %d: %+v", c.name, batch, f)
				}
			}
		}
	}
}

func TestRowsWriteEverythingInOrder(t *testing.T) {
	type client struct{ got []int }
	broken := &client{}
	var written sync.WaitGroup
	h := openHall(func(c *client, n int) error {
		if c == broken {
			return errors.New("gone")
		}
		c.got = append(c.got, n)
		written.Done()
		return nil
	})
	hungUp := make(chan struct{})
	clients := []*client{{}, broken, {}, {}, {}}
	for _, c := range clients {
		if !h.join(c, func() { <-hungUp }) {
			t.Fatal("cannot join")
		}
	}
	want := make([]int, 100)
	written.Add(len(want) * (len(clients) - 1))
	for i := range want {
		want[i] = i
		if err := h.publish(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	written.Wait()
	var once sync.Once
	h.end(func(*client) error {
		once.Do(func() { close(hungUp) })
		return nil
	})
	for i, c := range clients {
		if c != broken && !slices.Equal(c.got, want) {
			t.Errorf("client %d got %v", i, c.got)
		}
	}
	if h.join(&client{}, func() {}) {
		t.Error("somebody joined after the end")
	}
}

// TestHoldingBack checks that the publisher of a rival that queues waits for receivers, and gives
// up on lost messages.
func TestHoldingBack(t *testing.T) {
	name := filepath.Join(t.TempDir(), "board")
	if err := proc.MakeBoard(name); err != nil {
		t.Fatal(err)
	}
	board, err := proc.OpenBoard(name)
	if err != nil {
		t.Fatal(err)
	}
	const subscribers, window = 10, 32
	most, sent := uint64(0), uint64(0)
	var p publisher
	p = publisher{
		board: board, subscribers: subscribers, patience: time.Millisecond,
		pattern: pattern.Pattern{Kind: pattern.Lockstep, Batch: 16, Window: window},
		relay: &relay{queues: true, publish: func(_ context.Context, batch [][]byte) error {
			sent += uint64(len(batch)) * subscribers
			most = max(most, sent-p.lost-board.Received.Load())
			if sent > 100_000 {
				p.stop.Store(true)
			}
			board.Received.Add(uint64(len(batch)) * (subscribers - 1)) // a tenth is dropped
			return nil
		}},
	}
	if err := p.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if most > window*subscribers {
		t.Errorf("%d deliveries were on their way; the window allows %d", most, window*subscribers)
	}
	if p.lost == 0 || p.last*subscribers != sent {
		t.Errorf("lost %d, published %d of %d", p.lost, p.last*subscribers, sent)
	}
}

func TestMedians(t *testing.T) {
	run := func(rate, lost float64, fault string) *figures {
		return &figures{Run: scenario.Run{PerSecond: rate, Error: fault}, Lost: lost}
	}
	m := medians([]*figures{run(3, 0, ""), run(1, 0.1, "a"), run(2, 0.3, "b"), run(5, 0, "")})
	if m.PerSecond != 2.5 || m.Error != "b" || m.Lost != 0.3 {
		t.Errorf("%+v", m)
	}
}

// TestReport checks that the table has a line for each server, and the runs that failed.
func TestReport(t *testing.T) {
	p := plan{rounds: 1, window: time.Second}
	r := newReport(&p)
	var all []contestant
	var runs []*figures
	for i, name := range []string{ceiling, ordinary, "nats", "nchan", atOnce} {
		all = append(all, contestant{name: name, version: "v" + name})
		runs = append(runs, &figures{Run: scenario.Run{PerSecond: float64(1e6 * (4 - i))}})
	}
	runs[3], runs[4].PerSecond = nil, 3e6
	r.fail(&all[3], 1000, 16, errors.New("no luck"))
	r.addRound(all, 1000, 16, runs)
	var text strings.Builder
	if err := r.print(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1000 subscribers, messages published in batches of 16, as fast as they go\n", "4.00 M", " 0.75 ", "nats: vnats\n", "nchan, 1000 subscribers, batches of 16, a run failed: no luck\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
}
