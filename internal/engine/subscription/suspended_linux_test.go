package subscription_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/recent"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/wire"
)

// inChild runs the present test in a process of its own, and reports whether this is that process.
// A limit of the size of files would otherwise also apply to the files of go test.
func inChild(t *testing.T) bool {
	t.Helper()
	const variable = "SUBSCRIPTION_TEST_CHILD"
	if os.Getenv(variable) == t.Name() {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), variable+"="+t.Name())
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("%v: %s", err, out)
	}
	return false
}

// fullDisk prevents the files of this process from growing until restore is called.
func fullDisk(t *testing.T) (restore func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	t.Cleanup(func() { signal.Reset(syscall.SIGXFSZ) })
	var size syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &size); err != nil {
		t.Fatal(err)
	}
	set := func(most uint64) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: most, Max: size.Max}); err != nil {
			t.Fatal(err)
		}
	}
	set(0)
	restore = func() { set(size.Cur) }
	t.Cleanup(restore)
	return restore
}

// TestResumeWhileSuspendedE2E checks resumes while the journal loses rows. The rows before and
// after the lost ones are sent, and the message between them has the exact range. An instrument
// without lost rows resumes as usual.
func TestResumeWhileSuspendedE2E(t *testing.T) {
	if !inChild(t) {
		return
	}
	w := &streamtest.House{T: t, Folder: t.TempDir(), Kept: 10, Names: []string{"A|M|CI", "B|M|CI"}}
	w.Begin()
	for i := range 6000 {
		streamtest.Publish(t, w.Hub, streamtest.Trade(w.Handles[i%2], i))
	}
	w.Hub.Commit()
	restore := fullDisk(t)
	for i := range 3000 {
		streamtest.Publish(t, w.Hub, streamtest.Trade(w.Handles[0], 6000+i))
		if i%50 == 0 {
			w.Hub.Commit()
		}
	}
	if _, _, ok := w.Journal.Suspended(); !ok {
		t.Fatal("the disk is full, and the journal is not suspended")
	}
	const kept = 6000 - 6000%recent.ChunkRows // memory has the rows after it
	for _, tt := range []struct {
		name string
		n    uint64
		lost wire.Range
		last uint64
	}{
		{"A|M|CI", 500, wire.Range{From: 3001, To: kept, Reason: "buffer_exceeded"}, 6000},
		{"A|M|CI", 3000, wire.Range{From: 3001, To: kept, Reason: "buffer_exceeded"}, 6000}, // all rows of the journal
		{"A|M|CI", 3500, wire.Range{From: 3501, To: kept, Reason: "buffer_exceeded"}, 6000},
		{"A|M|CI", 5990, wire.Range{}, 6000},
		{"B|M|CI", 50, wire.Range{}, 3000},
	} {
		c := streamtest.NewClient(t, w.Shard)
		r := &wire.Resume{Epoch: w.Hub.Epoch()}
		r.Seen[wire.Trades] = map[string]uint64{tt.name: tt.n}
		out := c.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID(tt.name)}}, subscription.Options{Resume: r})
		c.Sub.AfterReplay(subscription.ReplayEnd{Whole: wire.AppendText(nil, []byte(`{"type":"CaughtUp"}`)), Failed: wire.AppendText(nil, []byte(`{"type":"Error"}`))})
		if len(out.Lost[wire.Trades]) > 0 {
			t.Errorf("%s from %d: the answer has lost %v", tt.name, tt.n, out.Lost[wire.Trades])
		}
		var lost wire.Range
		last, said := tt.n, ""
		for said == "" {
			streamtest.Turn(w.Shard)
			for c.Sub.Pending() {
				for _, m := range streamtest.Frames(t, c.Sub.Gather(nil, 1<<16, wire.JSON, false)) {
					switch m.Type {
					case "T":
						if m.N != last+1 {
							t.Errorf("%s from %d: N %d comes after %d", tt.name, tt.n, m.N, last)
						}
						last = m.N
					case "Subscription":
						if lost = m.Lost["trades"][tt.name]; lost.From != last+1 {
							t.Errorf("%s from %d: lost %+v comes after %d", tt.name, tt.n, lost, last)
						}
						last = lost.To
					case "CaughtUp", "Error":
						said = m.Type
					}
				}
			}
		}
		if said != "CaughtUp" || lost != tt.lost || last != tt.last {
			t.Errorf("%s from %d: %s after %d, lost %+v, want %+v", tt.name, tt.n, said, last, lost, tt.lost)
		}
		c.Sub.Close()
	}
	restore()
	w.Leave(true)
}

// TestSlowReplayWhileSuspended checks a resume from rows that the journal has lost and memory has.
// The client receives all of them, even if it reads them after memory has dropped them.
func TestSlowReplayWhileSuspended(t *testing.T) {
	w := &streamtest.House{T: t, Folder: t.TempDir(), Kept: 2000, Names: []string{"A|M|CI"}}
	w.Begin()
	streamtest.Publish(t, w.Hub, streamtest.Trade(w.Handles[0], 0))
	w.Hub.Commit()
	restore := fullDisk(t)
	some := func(n int) {
		for i := range n {
			streamtest.Publish(t, w.Hub, streamtest.Trade(w.Handles[0], i))
			if i%50 == 0 {
				w.Hub.Commit()
			}
		}
	}
	some(1000)
	if _, _, ok := w.Journal.Suspended(); !ok {
		t.Fatal("the disk is full, and the journal is not suspended")
	}
	c := streamtest.NewClient(t, w.Shard)
	r := &wire.Resume{Epoch: w.Hub.Epoch()}
	r.Seen[wire.Trades] = map[string]uint64{"A|M|CI": 500}
	c.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID("A|M|CI")}}, subscription.Options{Resume: r})
	c.Sub.AfterReplay(subscription.ReplayEnd{Whole: wire.AppendText(nil, []byte(`{"type":"CaughtUp"}`)), Failed: wire.AppendText(nil, []byte(`{"type":"Error"}`))})
	for _, m := range streamtest.Frames(t, c.Sub.Gather(nil, 1000, wire.JSON, false)) {
		c.Take(&m)
	}
	some(5000)
	streamtest.Turn(w.Shard)
	w.Hub.Commit()
	w.Replayed(c)
	streamtest.Turn(w.Shard)
	c.Read(1<<20, false)
	if got := c.Trades["A|M|CI"]; len(got) != 5501 || c.Raw[0].Type == "Error" {
		t.Errorf("%d trades of 5501", len(got))
	}
	c.Sub.Close()
	restore()
	w.Leave(true)
}

// TestStoredWithoutNewRows checks that a producer that sends nothing while it waits learns that its
// numbers are stored, after a full disk has space again.
func TestStoredWithoutNewRows(t *testing.T) {
	w := &streamtest.House{T: t, Folder: t.TempDir(), Kept: 100, Names: []string{"A|M|CI"}, Numbering: "day"}
	w.Begin()
	ctx, cancel := context.WithCancel(t.Context())
	var runs sync.WaitGroup
	runs.Go(func() { _ = w.Journal.Run(ctx) })
	publish := func(n int) []feed.Held {
		e := streamtest.Trade(w.Handles[0], n)
		e.Sequence = uint64(n)
		streamtest.Publish(t, w.Hub, e)
		return []feed.Held{{Handle: w.Handles[0], ID: streamtest.ID("A|M|CI"), Channel: feed.Trades, Sequence: uint64(n)}}
	}
	if err := w.Hub.AwaitStored(ctx, publish(1)); err != nil {
		t.Fatal(err)
	}
	restore := fullDisk(t)
	list := publish(2)
	if err := w.Hub.AwaitStored(ctx, list); !errors.Is(err, feed.ErrNotStored) {
		t.Fatalf("on a full disk: %v", err)
	}
	restore()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		err := w.Hub.AwaitStored(ctx, list)
		if err == nil {
			break
		}
		if !errors.Is(err, feed.ErrNotStored) || time.Now().After(end) {
			t.Fatalf("with space again: %v", err)
		}
	}
	cancel()
	runs.Wait()
	w.Leave(true)
}
