package dayhash

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/journal/journaltest"
)

// node is a node with a journal of three closed days.
type node struct {
	name    string
	folder  string
	checker *Checker
	Comparison
}

func newNode(t *testing.T, name string, d journaltest.Days) *node {
	t.Helper()
	d.Folder, d.Epoch, d.Closed, d.Rows = t.TempDir(), "e", 3, 200
	d.Write(t)
	r, err := journal.OpenReader(t.Context(), d.Folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return &node{name: name, folder: d.Folder, checker: NewChecker(r.Archive)}
}

// exchange lets all nodes read a day, and sends the hashes of each to all others. It returns the
// new differences that each node reports.
func exchange(t *testing.T, nodes ...*node) map[string][]Difference {
	t.Helper()
	found, reports := map[string][]Difference{}, map[string][]Day{}
	for _, n := range nodes {
		_, _, _ = n.checker.Read(t.Context()) // the report says if a day cannot be read
		days := n.checker.Days()
		if len(days) != 3 {
			t.Fatalf("%s has the days %+v", n.name, days)
		}
		found[n.name], reports[n.name] = append(found[n.name], n.Own(days)...), days
	}
	for _, n := range nodes {
		for _, m := range nodes {
			if m != n {
				found[m.name] = append(found[m.name], m.Heard(Report{n.name, reports[n.name]})...)
			}
		}
	}
	return found
}

// TestJournalsDiffer checks that all nodes report once that one of them has another trade in a
// closed day.
func TestJournalsDiffer(t *testing.T) {
	t.Parallel()
	a, b := newNode(t, "a", journaltest.Days{}), newNode(t, "b", journaltest.Days{Wrong: 250})
	c := newNode(t, "c", journaltest.Days{})
	if f := exchange(t, a, c); len(f["a"])+len(f["c"]) > 0 || a.Differ() > 0 {
		t.Fatalf("equal journals differ: %+v", f)
	}
	f := exchange(t, a, b, c)
	if len(f["a"]) != 1 || len(f["c"]) != 1 || len(f["b"]) != 2 || a.Differ() != 1 || b.Differ() != 1 {
		t.Fatalf("%+v", f)
	}
	if d := f["a"][0]; d.Date != "2025-11-22" || d.Node != "b" || d.Own == d.Other || d.Differ != 1 {
		t.Errorf("%+v", d)
	}
	if d := f["b"][1]; d.Node != "c" || d.Same != 0 || d.Differ != 2 {
		t.Errorf("%+v", d)
	}
	if f := exchange(t, a, b, c); len(f["a"])+len(f["b"])+len(f["c"]) > 0 || a.Differ() != 1 {
		t.Errorf("reported again: %+v", f)
	}
}

// TestFileChanged checks that a node finds a closed day whose file was changed by hand after the
// day was closed, within one reading of each day, and that other nodes do not count it twice.
func TestFileChanged(t *testing.T) {
	t.Parallel()
	a, b := newNode(t, "a", journaltest.Days{}), newNode(t, "b", journaltest.Days{})
	exchange(t, a, b)
	files, err := filepath.Glob(filepath.Join(a.folder, "2025-11-21", "*.segz"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 1
	if err := os.WriteFile(files[0], text, 0o600); err != nil {
		t.Fatal(err)
	}
	var found []Difference
	for range 3 {
		f := exchange(t, a, b)
		if found = append(found, f["a"]...); len(f["b"]) > 0 {
			t.Errorf("the other node reports %+v", f["b"])
		}
	}
	if len(found) != 1 || found[0].Date != "2025-11-21" || found[0].Node != "" || a.Differ() != 1 || b.Differ() != 0 {
		t.Errorf("%+v", found)
	}
}

// TestForgedReports checks that reports of more nodes than a cluster has, about days that no node
// has, take limited memory, and that those of the nodes that are known still count.
func TestForgedReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Comparison
		c.Own([]Day{{Date: "2025-11-21", Hash: "x", From: 5}})
		c.Heard(Report{Node: "b"})
		days := []Day{{Date: "2025-11-21", Hash: strings.Repeat("y", maxText+1), From: 5}}
		for i := range 1000 {
			days = append(days, Day{Date: fmt.Sprint("day ", i), Hash: "y"})
		}
		for i := range 2 * maxNodes {
			c.Heard(Report{fmt.Sprint("node-", i), days})
		}
		c.Heard(Report{strings.Repeat("n", maxText+1), days})
		kept := 0
		for _, h := range c.others {
			kept += len(h.days)
		}
		if len(c.others) != maxNodes || kept != 0 {
			t.Errorf("%d nodes with %d days are kept", len(c.others), kept)
		}
		c.Heard(Report{"b", []Day{{Date: "2025-11-21", Hash: "y", From: 5}}})
		if n := c.Differ(); n != 1 {
			t.Errorf("%d days differ from a node that is known", n)
		}
		time.Sleep(forget + 1)
		if c.Heard(Report{Node: "later"}); len(c.others) != 1 {
			t.Errorf("%d nodes are kept that have left", len(c.others)-1)
		}
	})
}

// TestNodesLeave checks that a node without a report for long does not count any more, and that a
// journal which began in the middle of a day is not compared on that day.
func TestNodesLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Comparison
		day := func(hash string, from int64, oldest bool) []Day { return []Day{{"2025-11-21", hash, from, oldest}} }
		c.Own(day("x", 5, true))
		c.Heard(Report{"late", day("y", 9, true)})
		c.Heard(Report{"unreadable", day("", 5, true)})
		if n := c.Differ(); n != 0 {
			t.Errorf("%d days differ", n)
		}
		c.Heard(Report{"wrong", day("y", 5, true)})
		c.Heard(Report{"short", day("z", 9, false)})
		if n := len(c.differences()); n != 2 {
			t.Errorf("%d differences", n)
		}
		time.Sleep(forget + 1)
		if n := c.Differ(); n != 0 {
			t.Errorf("%d days differ from nodes that have left", n)
		}
	})
}
