package journal

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestNextEpoch checks that a journal begins an epoch after rows of another one, which stay as they
// are, and that a restart continues with the new one, also after a kill.
func TestNextEpoch(t *testing.T) {
	cfg := testConfig(t)
	cfg.Copy, cfg.Epoch, cfg.Segment = true, "log-1", 40_000
	src := newRowSource(1, 3)
	j := begin(t, cfg, src)
	src.write(j, 700, true)
	first, err := j.Hash(t.Context(), "log-1")
	if err != nil {
		t.Fatal(err)
	}
	j.Append(src.next(false))
	if err := j.BeginEpoch("log-2", src.position); !errors.Is(err, errPending) {
		t.Errorf("an epoch began before a row was written: %v", err)
	}
	j.Commit()
	if first, err = j.Hash(t.Context(), "log-1"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", strings.Repeat("x", 17)} {
		if j.BeginEpoch(name, src.position) == nil {
			t.Errorf("the epoch %q began", name)
		}
	}
	base := src.position + 100
	*src = *newRowSource(2, 3)
	src.position = base
	if err := j.BeginEpoch("log-2", base); err != nil {
		t.Fatal(err)
	}
	src.define(j)
	src.write(j, 600, true)
	// Delayed data of the epoch is there before its first checkpoint is old enough.
	rows := 0
	err = j.StateUntil(t.Context(), func(r *Row) bool { return r.Position <= base+5 }, func() { rows = 0 }, func(*Row) { rows++ })
	if err != nil || rows != 5 {
		t.Errorf("%d rows are due: %v", rows, err)
	}
	check := func(when string) {
		t.Helper()
		if now, err := j.Hash(t.Context(), "log-1"); err != nil || now != first {
			t.Errorf("%s: the rows of the first epoch have changed: %v", when, err)
		}
		if got := j.Epochs(); !slices.Equal(got, []string{"log-1", "log-2"}) || j.Epoch() != "log-2" {
			t.Errorf("%s: epochs %v, newest %s", when, got, j.Epoch())
		}
		if j.Complete() != base || lastPosition(j.views("")) != src.position {
			t.Errorf("%s: rows from %d to %d, want %d to %d", when, j.Complete(), lastPosition(j.views("")), base, src.position)
		}
	}
	check("before a restart")
	folder := copyFolder(t, cfg.Folder) // as after a kill
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.Epoch = ""
	for _, cfg.Folder = range []string{cfg.Folder, folder} {
		j = mustOpen(t, cfg)
		checkpoint, rows := restoreAll(t, j)
		for _, r := range append(checkpoint, rows...) {
			if r.Position <= base {
				t.Fatalf("a row at position %d is restored", r.Position)
			}
		}
		check("after a restart")
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
