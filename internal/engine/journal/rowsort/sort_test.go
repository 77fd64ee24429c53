package rowsort

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/journal/disk"
	"github.com/ruedahq/rueda/internal/engine/journal/record"
)

func realSystem() *disk.System {
	var s disk.System
	s.Fill()
	return &s
}

// TestSort sorts rows with an arena for a few of them, for all of them, and for less than one. Each
// series comes once, in order, with its rows in order. No file is left.
func TestSort(t *testing.T) {
	const rows = 20_000
	rng := rand.New(rand.NewPCG(71, 7))
	keys, sizes := make([]uint64, rows), make([]int, rows)
	want := map[uint64][]int{} // numbers of rows by key
	for i := range keys {
		keys[i], sizes[i] = 1+uint64(rng.IntN(5))<<32|uint64(rng.IntN(7))<<16, 24+8*rng.IntN(20)
		want[keys[i]] = append(want[keys[i]], i)
	}
	path := filepath.Join(t.TempDir(), "rows")
	for _, arena := range []int{rowHead, 1_000, 100_000, 50_000_000} {
		s := New(realSystem(), path, 0)
		s.arena = make([]byte, rowHead, arena)
		for i, key := range keys {
			rec := make([]byte, sizes[i])
			binary.LittleEndian.PutUint64(rec, uint64(i))
			if err := s.Add(key, record.Base{Position: uint64(i) + 1, At: int64(-i)}, rec); err != nil {
				t.Fatal(err)
			}
		}
		if runs := len(s.runs); arena < 1_000_000 && runs < 2 || arena > 1_000_000 && runs != 0 {
			t.Errorf("arena of %d bytes: %d runs", arena, runs)
		}
		wantSorted(t, s, want, sizes)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if left, err := filepath.Glob(path + "*"); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	}
}

func wantSorted(t *testing.T, s *Sorter, want map[uint64][]int, sizes []int) {
	t.Helper()
	var got []int
	last, count := uint64(0), 0
	err := s.Each(t.Context(), func(base record.Base, rec []byte) error {
		i := int(binary.LittleEndian.Uint64(rec))
		if base.Position != uint64(i)+1 || base.At != int64(-i) || len(rec) != sizes[i] {
			t.Errorf("row %d has base %+v and %d bytes, want %d", i, base, len(rec), sizes[i])
		}
		got = append(got, i)
		return nil
	}, func(key uint64) error {
		if key <= last {
			t.Errorf("series %x comes after %x", key, last)
		}
		if len(got) != len(want[key]) {
			t.Fatalf("series %x has %d rows, want %d", key, len(got), len(want[key]))
		}
		for i, n := range got {
			if n != want[key][i] {
				t.Fatalf("row %d of series %x is %d, want %d", i, key, n, want[key][i])
			}
		}
		last, got = key, got[:0]
		count++
		return nil
	})
	if err != nil || count != len(want) {
		t.Errorf("%d series, want %d: %v", count, len(want), err)
	}
}

// TestSortDamaged changes a chunk of the temporary file: there is an error and no wrong row.
func TestSortDamaged(t *testing.T) {
	s := New(realSystem(), filepath.Join(t.TempDir(), "rows"), 0)
	s.arena = make([]byte, rowHead, 10_000)
	for k := range uint64(1_000) {
		if err := s.Add(k%5, record.Base{Position: k, At: 1}, make([]byte, 64)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.file.WriteAt([]byte{0x55}, s.file.Size/2); err != nil {
		t.Fatal(err)
	}
	err := s.Each(t.Context(), func(record.Base, []byte) error { return nil }, func(uint64) error { return nil })
	if !errors.Is(err, record.ErrChecksum) {
		t.Errorf("a changed byte: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
