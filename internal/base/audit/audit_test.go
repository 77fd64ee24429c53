package audit_test

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/base/audit"
)

var key = audit.NewChain([]byte("a key of the tests"))

// written returns rows as a store would contain them.
func written(n int) (rows []audit.Row) {
	var head audit.Head
	for i := range n {
		row := key.Next(head, audit.Event{
			Time: time.UnixMicro(1_790_000_000_000_000 + int64(i)), Kind: audit.Login, Actor: "client", User: fmt.Sprint("u", i),
			Family: fmt.Sprint("f", i), Address: "192.0.2.1", Client: "test/1", Detail: "detail",
		})
		rows, head = append(rows, row), row.Head()
	}
	return rows
}

func each(rows []audit.Row) iter.Seq2[audit.Row, error] {
	return func(yield func(audit.Row, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// find checks that the log is broken, and that the error names a row.
func find(t *testing.T, rows []audit.Row, start audit.Head, want string) {
	t.Helper()
	if _, err := key.Verify(start, each(rows)); !errors.Is(err, audit.ErrBroken) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v; want one with %q", err, want)
	}
}

// TestThreat34AuditTampering checks that changes without the key are detected, with the row.
func TestThreat34AuditTampering(t *testing.T) {
	rows := written(20)
	if head, err := key.Verify(audit.Head{}, each(rows)); err != nil || head != rows[19].Head() {
		t.Fatalf("untouched: %v, %v", head, err)
	}
	t.Run("one byte", func(t *testing.T) {
		for name, field := range map[string]func(*audit.Row) *string{
			"actor": func(r *audit.Row) *string { return &r.Actor }, "user": func(r *audit.Row) *string { return &r.User },
			"family": func(r *audit.Row) *string { return &r.Family }, "address": func(r *audit.Row) *string { return &r.Address },
			"client": func(r *audit.Row) *string { return &r.Client }, "detail": func(r *audit.Row) *string { return &r.Detail },
			"kind": func(r *audit.Row) *string { return (*string)(&r.Kind) },
		} {
			for i := range *field(&rows[6]) {
				changed := slices.Clone(rows)
				text := []byte(*field(&changed[6]))
				text[i] ^= 1
				*field(&changed[6]) = string(text)
				find(t, changed, audit.Head{}, "row 7 ")
			}
			t.Logf("%s: every byte", name)
		}
		for i := range rows[6].Hash {
			changed := slices.Clone(rows)
			changed[6].Hash[i] ^= 1
			find(t, changed, audit.Head{}, "row 7 ")
		}
		changed := slices.Clone(rows)
		changed[6].Time = changed[6].Time.Add(time.Microsecond)
		find(t, changed, audit.Head{}, "row 7 ")
	})
	t.Run("a byte moved to the next column", func(t *testing.T) {
		changed := slices.Clone(rows)
		changed[6].User, changed[6].Family = "u", "6"+changed[6].Family
		find(t, changed, audit.Head{}, "row 7 ")
	})
	t.Run("a row taken out", func(t *testing.T) {
		for i := range 19 { // rows removed from the end need a stored head
			find(t, slices.Delete(slices.Clone(rows), i, i+1), audit.Head{}, fmt.Sprintf("row %d follows row %d", i+2, i))
		}
	})
	t.Run("two swapped", func(t *testing.T) {
		changed := slices.Clone(rows)
		changed[3], changed[9] = changed[9], changed[3]
		changed[3].Seq, changed[9].Seq = 4, 10
		find(t, changed, audit.Head{}, "row 4 ")
	})
	t.Run("the start cut off", func(t *testing.T) {
		find(t, rows[5:], audit.Head{}, "row 6 follows row 0")
		find(t, rows[5:], rows[4].Head(), "up to row 5 ")
	})
	t.Run("forged without the key", func(t *testing.T) {
		for _, forger := range []audit.Chain{{}, audit.NewChain(nil), audit.NewChain([]byte("a key of the testt"))} {
			forged := slices.Clone(rows[:10])
			forged[9] = forger.Next(forged[8].Head(), rows[9].Event)
			find(t, forged, audit.Head{}, "row 10 ")
		}
	})
	t.Run("a note of pruning forged without the key", func(t *testing.T) {
		forged := slices.Clone(rows[5:])
		forged = append(forged, audit.Chain{}.Next(rows[19].Head(), audit.PrunedEvent(time.Now(), rows[4].Head())))
		find(t, forged, rows[4].Head(), "row 21 ")
	})
}

// TestPruned checks that a log without its oldest rows is valid if it records that.
func TestPruned(t *testing.T) {
	rows := written(20)
	rows = append(rows, key.Next(rows[19].Head(), audit.PrunedEvent(time.Now(), rows[4].Head())))
	rows = append(rows, key.Next(rows[20].Head(), audit.PrunedEvent(time.Now(), rows[9].Head())))
	for _, cut := range []int{0, 5, 10} {
		start := audit.Head{}
		if cut > 0 {
			start = rows[cut-1].Head()
		}
		if head, err := key.Verify(start, each(rows[cut:])); err != nil || head.Seq != 22 {
			t.Errorf("after row %d: %v, %v", cut, head, err)
		}
	}
	find(t, rows[12:], rows[11].Head(), "up to row 12 ")
	find(t, rows[22:], rows[21].Head(), "up to row 22 ")
}

func TestHeads(t *testing.T) {
	head := written(3)[2].Head()
	if got, err := audit.ParseHead(head.String()); err != nil || got != head {
		t.Errorf("%v, %v; want %v", got, err, head)
	}
	for _, bad := range []string{"", ":", "3", "3:", "3:ab", "x" + head.String(), head.String() + "00", "-" + head.String(), strings.Replace(head.String(), ":", ":zz", 1)[:67]} {
		if got, err := audit.ParseHead(bad); err == nil {
			t.Errorf("%q was read as %v", bad, got)
		}
	}
}

func TestReadingFails(t *testing.T) {
	failed := errors.New("on purpose")
	_, err := key.Verify(audit.Head{}, func(yield func(audit.Row, error) bool) { yield(audit.Row{}, failed) })
	if !errors.Is(err, failed) || errors.Is(err, audit.ErrBroken) {
		t.Errorf("error %v", err)
	}
}

func BenchmarkLink(b *testing.B) {
	row := written(1)[0]
	b.ReportAllocs()
	for b.Loop() {
		row = key.Next(row.Head(), row.Event)
	}
}
