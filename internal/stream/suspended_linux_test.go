package stream

import (
	"os/signal"
	"slices"
	"syscall"
	"testing"

	"github.com/ruedahq/rueda/wire"
)

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

// TestResumeWhileSuspended checks resumes while the journal loses rows. If a resume would have a
// gap, the rows before the gap are not sent, and Lost has the exact range. An instrument without
// lost rows resumes as usual.
func TestResumeWhileSuspended(t *testing.T) {
	w := &house{t: t, folder: t.TempDir(), kept: 10, names: []string{"A|M|CI", "B|M|CI"}}
	w.begin()
	for i := range 6000 {
		publish(t, w.hub, trade(w.handles[i%2], i))
	}
	w.hub.Commit()
	restore := fullDisk(t)
	for i := range 3000 {
		publish(t, w.hub, trade(w.handles[0], 6000+i))
		if i%50 == 0 {
			w.hub.Commit()
		}
	}
	if _, _, ok := w.journal.Suspended(); !ok {
		t.Fatal("the disk is full, and the journal is not suspended")
	}
	for _, tt := range []struct {
		name     string
		n        uint64
		lost     Lost
		from, to uint64
	}{
		{"A|M|CI", 500, Lost{From: 501, To: 6000, Reason: "buffer_exceeded"}, 0, 0},
		{"A|M|CI", 3000, Lost{From: 3001, To: 6000, Reason: "buffer_exceeded"}, 0, 0}, // all rows of the journal
		{"A|M|CI", 3500, Lost{From: 3501, To: 6000, Reason: "buffer_exceeded"}, 0, 0},
		{"A|M|CI", 5990, Lost{}, 5991, 6000},
		{"B|M|CI", 50, Lost{}, 51, 3000},
	} {
		c := newClient(t, w.shard)
		r := &wire.Resume{Epoch: w.hub.Epoch()}
		r.Seen[wire.Trades] = map[string]uint64{tt.name: tt.n}
		out := c.sub.Subscribe([]Item{{Channel: wire.Trades, ID: id(tt.name)}}, Options{Resume: r})
		c.sub.AfterReplay(ReplayEnd{Whole: wire.AppendText(nil, []byte(`{"type":"CaughtUp"}`)), Failed: wire.AppendText(nil, []byte(`{"type":"Error"}`))})
		if got := out.Lost[wire.Trades][tt.name]; got != tt.lost {
			t.Errorf("%s from %d: lost %+v, want %+v", tt.name, tt.n, got, tt.lost)
		}
		var want, got []uint64
		for n := tt.from; n > 0 && n <= tt.to; n++ {
			want = append(want, n)
		}
		said := ""
		for said == "" {
			turn(w.shard)
			for c.sub.Pending() {
				for _, m := range frames(t, c.sub.Gather(nil, 1<<16, wire.JSON, false)) {
					switch m.Type {
					case "T":
						got = append(got, m.N)
					case "CaughtUp", "Error":
						said = m.Type
					}
				}
			}
		}
		if said != "CaughtUp" || !slices.Equal(got, want) {
			t.Errorf("%s from %d: %s behind %v, want %v", tt.name, tt.n, said, got, want)
		}
		c.sub.Close()
	}
	restore()
	w.leave(true)
}

// TestSlowReplayWhileSuspended checks a resume from rows that the journal has lost and memory has.
// The client receives all of them, even if it reads them after memory has dropped them.
func TestSlowReplayWhileSuspended(t *testing.T) {
	w := &house{t: t, folder: t.TempDir(), kept: 2000, names: []string{"A|M|CI"}}
	w.begin()
	publish(t, w.hub, trade(w.handles[0], 0))
	w.hub.Commit()
	restore := fullDisk(t)
	some := func(n int) {
		for i := range n {
			publish(t, w.hub, trade(w.handles[0], i))
			if i%50 == 0 {
				w.hub.Commit()
			}
		}
	}
	some(1000)
	if _, _, ok := w.journal.Suspended(); !ok {
		t.Fatal("the disk is full, and the journal is not suspended")
	}
	c := newClient(t, w.shard)
	r := &wire.Resume{Epoch: w.hub.Epoch()}
	r.Seen[wire.Trades] = map[string]uint64{"A|M|CI": 500}
	c.sub.Subscribe([]Item{{Channel: wire.Trades, ID: id("A|M|CI")}}, Options{Resume: r})
	c.sub.AfterReplay(ReplayEnd{Whole: wire.AppendText(nil, []byte(`{"type":"CaughtUp"}`)), Failed: wire.AppendText(nil, []byte(`{"type":"Error"}`))})
	for _, m := range frames(t, c.sub.Gather(nil, 1000, wire.JSON, false)) {
		c.take(&m)
	}
	some(5000)
	turn(w.shard)
	w.hub.Commit()
	w.replayed(c)
	turn(w.shard)
	c.read(1<<20, false)
	if got := c.trades["A|M|CI"]; len(got) != 5501 || c.raw[0].Type == "Error" {
		t.Errorf("%d trades of 5501", len(got))
	}
	c.sub.Close()
	restore()
	w.leave(true)
}
