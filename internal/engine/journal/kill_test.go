package journal

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/journal/record"
)

// TestMain runs a writer that will be killed if the environment says so.
func TestMain(m *testing.M) {
	if folder := os.Getenv("JOURNAL_TEST_WRITER"); folder != "" {
		if err := killedWriter(folder); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// killedWriter writes rows as fast as possible and prints the position of each commit in 8 bytes.
// It continues after the end of the journal. Days pass, so that days are closed and removed
// meanwhile.
func killedWriter(folder string) error {
	j, err := Open(context.Background(), Config{Folder: folder, BootID: "boot-1", Segment: 60_000, Days: 3, Sync: time.Millisecond})
	if err != nil {
		return err
	}
	src := newRowSource(uint64(os.Getpid()), 4)
	src.clone = false
	err = j.Restore(func(r *Row) error {
		src.follow(r)
		return nil
	})
	if err != nil {
		return err
	}
	if err := j.Start(src.checkpoint); err != nil {
		return err
	}
	src.define(j)
	go func() { fmt.Fprintln(os.Stderr, j.Run(context.Background())) }()
	var b [8]byte
	for i := 0; ; i++ {
		for range 1 + src.rng.IntN(20) {
			j.Append(src.next(true))
		}
		j.Commit()
		if i%300 == 299 {
			src.at += dayNanos
		}
		binary.LittleEndian.PutUint64(b[:], src.position)
		if _, err := os.Stdout.Write(b[:]); err != nil {
			return err
		}
	}
}

// follow applies a row of Restore.
func (t *rowSource) follow(r *Row) {
	t.position, t.at = max(t.position, r.Position), max(t.at, r.At)
	i := int(r.Instrument) - 1
	c := &t.counts[i]
	switch r.Kind {
	case Numbers:
		*c = r.Counts
	case Trade, Cancel, Correct:
		c.N[Trades] = r.N
		c.N[Summaries]++
	case Status:
		c.N[Statuses] = r.N
	case Quote:
		c.N[Quotes] = r.N
	case Bar:
		c.Bars[r.Bar.Interval] = r.N
	case Reference:
		c.N[Summaries] = r.N
	case BookLost:
		c.N[Books], t.known[i] = r.N, false
	case BookState, BookUpdate:
		c.N[Books] = r.N
		if r.Kind == BookState {
			t.books[i].Reset()
			t.known[i] = true
		}
		for _, l := range r.Bids {
			t.books[i].Set(1, l)
		}
		for _, l := range r.Asks {
			t.books[i].Set(2, l)
		}
	}
}

// TestKillE2E kills a writer at random times, repeatedly in the same folder: all positions that it
// has printed are stored, in order and without gaps, also in each series, and the epoch stays.
func TestKillE2E(t *testing.T) {
	folder, log := "", filepath.Join(t.TempDir(), "stderr")
	rng := rand.New(rand.NewPCG(20, 26))
	epoch, committed, all := "", uint64(0), uint64(0)
	count := soak(500)
	for round := range count {
		if round%25 == 0 { // days come faster than they are closed
			folder, epoch, all, committed = t.TempDir(), "", all+committed, 0
		}
		committed = max(committed, killOne(t, folder, log, time.Duration(1+rng.IntN(60_000))*time.Microsecond))
		r, err := OpenReader(t.Context(), folder)
		if err != nil {
			t.Fatal(err)
		}
		if epoch == "" {
			epoch = r.Epoch()
		}
		if list := r.Epochs(); len(list) > 1 || len(list) == 1 && list[0] != epoch {
			t.Fatalf("round %d: epochs %v, it was %q", round, list, epoch)
		}
		wantUnbroken(t, r.Archive, committed)
		for _, d := range r.Damage() {
			if d.Reason != record.ReasonTorn {
				t.Fatalf("round %d: %v", round, &d)
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if all += committed; all == 0 {
		t.Fatal("nothing was ever committed")
	}
	t.Logf("figure: journal killed %d times, %d rows committed, none lost", count, all)
}

// killOne starts a writer and kills it some time after its first commit.
func killOne(t *testing.T, folder, logName string, after time.Duration) (committed uint64) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "JOURNAL_TEST_WRITER="+folder)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(logName)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(out)
	var b [8]byte
	for n := 0; ; n++ {
		if _, err := io.ReadFull(in, b[:]); err != nil {
			break
		}
		committed = binary.LittleEndian.Uint64(b[:])
		if n == 0 {
			timer := time.AfterFunc(after, func() { cmd.Process.Kill() })
			defer timer.Stop()
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != -1 {
		text, _ := os.ReadFile(log.Name())
		t.Fatalf("the writer ended by itself: %v: %s", err, text)
	}
	return committed
}

// wantUnbroken checks that every position and every N up to committed is stored, from the beginning
// of the journal.
func wantUnbroken(t *testing.T, a *Archive, committed uint64) {
	t.Helper()
	type key struct {
		instrument uint32
		slot       int
	}
	last, n := uint64(0), map[key]uint64{}
	err := a.Scan(t.Context(), ScanStart{}, nil, allKinds, func(r *Row) bool {
		if last != 0 && r.Position != last+1 {
			t.Fatalf("position %d comes behind %d", r.Position, last)
		}
		last = r.Position
		k := key{r.Instrument, r.Slot()}
		if k.slot == record.SlotSummaries {
			return true // has gaps like trades
		}
		if was, ok := n[k]; ok && r.N != was+1 {
			t.Fatalf("instrument %d, slot %d: N %d comes behind %d", k.instrument, k.slot, r.N, was)
		}
		n[k] = r.N
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	if last < committed {
		t.Fatalf("position %d was committed, the journal ends at %d", committed, last)
	}
	for k, want := range n {
		if k.slot == record.NoSlot {
			continue
		}
		def, _ := a.Instrument(k.instrument)
		got := uint64(0)
		err := a.Read(t.Context(), seriesOf(def.ID, k.slot), Range{}, func(_ string, r *Row) bool {
			if got != 0 && r.N != got+1 {
				t.Fatalf("%s, slot %d: N %d is read behind %d", def.ID, k.slot, r.N, got)
			}
			got = r.N
			return true
		})
		if err != nil || got != want {
			t.Fatalf("%s, slot %d: read up to %d, scanned up to %d: %v", def.ID, k.slot, got, want, err)
		}
	}
}
