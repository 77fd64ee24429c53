package journal

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestGather sorts the rows of a day with an arena for a few of them, for all of them, and for less
// than one: each series comes once, in order, and no file is left.
func TestGather(t *testing.T) {
	cfg := testConfig(t)
	cfg.Segment = 100_000
	src := newRowSource(71, 7)
	j := begin(t, cfg, src)
	src.write(j, 20_000, true)
	path := filepath.Join(t.TempDir(), "rows")
	for _, arena := range []int{gatherHead, 1_000, 100_000, 50_000_000} {
		g := newGatherer(realSystem(), path, 0, (*os.File).Write)
		g.arena = make([]byte, gatherHead, arena)
		views := j.views("")
		for i := range views {
			err := j.walk(t.Context(), &views[i], walkAll, func(c *cursor, rec []byte) (bool, error) {
				var h head
				if rec[0] >= byte(numKinds) || rec[1]&flagCheckpoint != 0 || !h.parse(rec, c.base) || h.slotOf(rec) == noSlot {
					return true, nil
				}
				return true, g.add(gatherKey(seriesKey{h.instrument, uint8(h.slotOf(rec))}, 0), c.base, rec)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if runs := len(g.runs); arena < 1_000_000 && runs < 2 || arena > 1_000_000 && runs != 0 {
			t.Errorf("arena of %d bytes: %d runs", arena, runs)
		}
		wantGathered(t, g, src)
		if err := g.close(); err != nil {
			t.Fatal(err)
		}
		if left, err := filepath.Glob(path + "*"); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

func wantGathered(t *testing.T, g *gatherer, src *rowSource) {
	t.Helper()
	var rows []Row
	var dec decoder
	last, count := uint64(0), 0
	err := g.each(t.Context(), func(from base, rec []byte) error {
		r, ok := dec.row(rec, from)
		if !ok {
			return errSum
		}
		rows = append(rows, cloneRow(r))
		return nil
	}, func(key uint64) error {
		if key <= last {
			t.Errorf("series %x comes behind %x", key, last)
		}
		sameRows(t, "gathered", rows, of(src.rows, uint32(key>>32), int(uint8(key>>16))))
		last, rows = key, nil
		count++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, n := range src.numbers {
		for slot := range numSlots {
			if len(of(src.rows, n, slot)) > 0 {
				want++
			}
		}
	}
	if count != want {
		t.Errorf("%d series, want %d", count, want)
	}
}

// TestGatherDamaged changes a chunk of the temporary file: there is an error and no wrong row.
func TestGatherDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows")
	g := newGatherer(realSystem(), path, 0, (*os.File).Write)
	for k := range uint64(1_000) {
		if err := g.add(k%5, base{k, 1}, make([]byte, 64)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := g.file.WriteAt([]byte{0x55}, g.file.size/2); err != nil {
		t.Fatal(err)
	}
	err := g.each(t.Context(), func(base, []byte) error { return nil }, func(uint64) error { return nil })
	if !errors.Is(err, errSum) {
		t.Errorf("a changed byte: %v", err)
	}
	if err := g.close(); err != nil {
		t.Fatal(err)
	}
}

// TestSyncWhileClosing blocks the closing of a day: the disk is still synced every second, a
// suspended journal is still probed, and Run ends when the closing does.
func TestSyncWhileClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig(t)
		stall, fails := make(chan struct{}), atomic.Bool{}
		stalled := sync.OnceFunc(func() { <-stall })
		cfg.write = func(f *os.File, b []byte) (int, error) {
			if strings.HasSuffix(f.Name(), dayFileName+tempEnding) {
				stalled()
			} else if fails.Load() {
				return 0, syscall.ENOSPC
			}
			return f.Write(b)
		}
		src := newRowSource(72, 3)
		j := begin(t, cfg, src)
		writeDays(t, j, src, 2, 1_000)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- j.Run(ctx) }()
		for range 5 {
			time.Sleep(1001 * time.Millisecond) // between two ticks
			src.write(j, 10, true)
			if !j.dirty.Load() {
				t.Error("nothing was written")
			}
			time.Sleep(time.Second)
			if j.dirty.Load() {
				t.Error("what was written waits for the disk longer than a second")
			}
		}
		synctest.Wait()
		fails.Store(true)
		src.write(j, 10, true)
		time.Sleep(time.Second)
		synctest.Wait()
		fails.Store(false)
		time.Sleep(2 * time.Second)
		j.Commit()
		if _, err, ok := j.Suspended(); ok {
			t.Errorf("there is space: %v", err)
		}
		if d := j.Days(); d[0].Closed {
			t.Error("the day is closed")
		}
		close(stall)
		time.Sleep(2 * time.Second)
		if d := j.Days(); !d[0].Closed {
			t.Error("the day is not closed")
		}
		stop()
		if err := errors.Join(<-done, j.Close()); err != nil {
			t.Fatal(err)
		}
	})
}
