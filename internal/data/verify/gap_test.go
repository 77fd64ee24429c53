package verify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

// fullDisk is a hub whose journal has no disk space for a while. A folder with the name of the next
// segment prevents the journal from creating it, so that it suspends.
type fullDisk struct {
	*hub.Hub
	t        *testing.T
	journal  *journal.Journal
	folder   string
	obstacle string
	events   int
	lost     int
	done     bool
}

// nextSegment returns the name of the next segment of the newest day.
func nextSegment(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*", "*.seg"))
	if err != nil || len(files) == 0 {
		t.Fatalf("segments %v, %v", files, err)
	}
	name := files[len(files)-1]
	n, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(name), ".seg"))
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(filepath.Dir(name), fmt.Sprintf("%08d.seg", n+1))
}

// Minimum numbers of events before the disk is full, and of lost events.
const (
	kept = 3000
	lost = 1000
)

func (d *fullDisk) Publish(events []market.Event) error {
	err := d.Hub.Publish(events)
	if d.done {
		return err
	}
	d.Commit()
	before := d.events
	d.events += len(events)
	if before < kept && d.events >= kept {
		d.obstacle = nextSegment(d.t, d.folder)
		return errors.Join(err, os.Mkdir(d.obstacle, 0o700))
	}
	_, _, suspended := d.journal.Suspended()
	switch {
	case !suspended && d.lost > 0:
		d.done = true
	case suspended && d.lost < lost:
		if d.lost += len(events); d.lost >= lost {
			err = errors.Join(err, os.Remove(d.obstacle))
			time.Sleep(2 * time.Second) // Run checks for space
		}
	}
	return err
}

// TestJournalWithGap fills the disk for a part of a simulated day. The gap is noted, nothing around
// it is wrong, and what follows is judged from the checkpoint on.
func TestJournalWithGap(t *testing.T) {
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		j, err := journal.Open(t.Context(), journal.Config{Folder: folder, Segment: 1 << 18, BootID: "boot"})
		if err != nil {
			t.Fatal(err)
		}
		d := &fullDisk{Hub: hub.New(hub.Config{Journal: j}), t: t, journal: j, folder: folder}
		if err := d.Restore(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- j.Run(ctx) }()
		if err := exchange(t, 5).Run(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		d.Commit()
		if !d.done {
			t.Errorf("the disk was not full and empty again: %d events, %d lost", d.events, d.lost)
		}
		cancel()
		if err := errors.Join(<-ended, j.Close()); err != nil {
			t.Fatal(err)
		}
	})
	r, err := Journal(t.Context(), folder, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Wrong() > 0 || r.Figure("gaps") != 1 {
		t.Errorf("%d gaps:\n%s", r.Figure("gaps"), text(r))
	}
	if c := r.Result(Chain); c.Judged < 1000 || c.Unjudged > 0 {
		t.Errorf("books: %d changes were judged, %d were not", c.Judged, c.Unjudged)
	}
}

// TestWrongCheckpoint has checkpoints that differ from the rows before them, without a gap: one
// that is followed by rows, and one at the end of the journal.
func TestWrongCheckpoint(t *testing.T) {
	for _, behind := range []int{0, 1} {
		folder := t.TempDir()
		j, err := journal.Open(t.Context(), journal.Config{Folder: folder, Segment: 1 << 12})
		if err != nil {
			t.Fatal(err)
		}
		number := uint32(0)
		n := uint64(0)
		level := func(n uint64) []market.Level {
			return []market.Level{{Price: market.Price(n) * market.Scale, Size: market.Scale}}
		}
		wrong := false
		err = j.Start(func(number uint32, emit func(*journal.Row)) {
			if n == 0 || !wrong {
				return // the beginning of the first segment
			}
			r := journal.Row{Kind: journal.Numbers, Instrument: number}
			r.Counts.N[journal.Books] = n + 3
			emit(&r)
			emit(&journal.Row{Kind: journal.BookState, Instrument: number, N: n + 3, Time: start, Bids: level(1)})
		})
		if err != nil {
			t.Fatal(err)
		}
		number = j.Define(instrumentOf("GGAL|BYMA|24hs"))
		position := uint64(0)
		add := func(n uint64) {
			position++
			j.Append(&journal.Row{Kind: journal.BookState, Instrument: number, Position: position, N: n, Time: start, At: start, Bids: level(n + 1)})
			j.Commit()
		}
		segments := func() int {
			files, err := filepath.Glob(filepath.Join(folder, "*", "*.seg"))
			if err != nil {
				t.Fatal(err)
			}
			return len(files)
		}
		for segments() < 2 {
			n++
			add(n)
			wrong = true
		}
		for i := range behind {
			add(n + 4 + uint64(i))
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := Journal(t.Context(), folder, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		if s, c := r.Result(Sequence), r.Result(Chain); s.Wrong != 1 || c.Wrong != 1 || r.Figure("gaps") != 0 {
			t.Errorf("%d rows behind the checkpoint:\n%s", behind, text(r))
		}
	}
}
