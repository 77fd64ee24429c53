package copying

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/journal/journaltest"
)

var market5 = journaltest.Days{Closed: 4, Rows: 900}

// begun returns the journal of a new node that has the newest days of node a, whose earlier days
// are missing.
func begun(t *testing.T, n *nodes) (p *peer, c *Copier, j *journal.Journal) {
	t.Helper()
	p, c = n.add(t, "a", market5), n.copier(t)
	if err := n.from(t, c, "a"); err != nil {
		t.Fatal(err)
	}
	return p, c, open(t, c, 1000)
}

// open installs and opens the journal of a new node.
func open(t *testing.T, c *Copier, days int) *journal.Journal {
	t.Helper()
	installed(t, c)
	j, err := journal.Open(t.Context(), journal.Config{Folder: c.Journal, Copy: true, Epoch: "e1", Days: days})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// twin adds a node whose journal has the files of another one.
func (n *nodes) twin(t *testing.T, name string, p *peer) *peer {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "journal")
	if err := os.CopyFS(folder, os.DirFS(p.Folder)); err != nil {
		t.Fatal(err)
	}
	q := &peer{Source: Source{Node: name, Folder: folder, Commit: func() {}}, status: p.status}
	q.Journal = open(t, &Copier{Journal: folder}, 1000)
	n.list[name] = q
	return q
}

// mustMiss checks that three of the five days are still missing in a journal.
func mustMiss(t *testing.T, j *journal.Journal) {
	t.Helper()
	if len(j.Days()) != 2 || len(j.Earlier()) != 3 {
		t.Errorf("days %+v, earlier %+v", j.Days(), j.Earlier())
	}
}

// mustHaveAll checks that a journal has the rows of another one.
func mustHaveAll(t *testing.T, j *journal.Journal, p *peer) {
	t.Helper()
	got, err := j.Hash(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	want, err := p.Journal.Hash(t.Context(), "")
	if err != nil || got != want || j.Earlier() != nil || j.Begins() != 0 {
		t.Errorf("hash %s, want %s, %v; earlier %+v, begins after %d", got, want, err, j.Earlier(), j.Begins())
	}
}

// TestWrongEarlierDay checks that an earlier day is not added if it is wrong in any way, and that a
// node with the same files then provides it.
func TestWrongEarlierDay(t *testing.T) {
	t.Parallel()
	day := func(t *testing.T, p *peer) string {
		t.Helper()
		list, err := filepath.Glob(filepath.Join(p.Folder, "2025-11-23", "*.segz"))
		if err != nil || len(list) == 0 {
			t.Fatal(list, err)
		}
		return list[0]
	}
	tests := map[string]func(t *testing.T, n *nodes, a *peer){
		"a bit changes on the way": func(_ *testing.T, n *nodes, _ *peer) {
			n.fault = func(node string, r *Request, part []byte) ([]byte, error) {
				if r.Op == OpRead && node == "a" {
					part[len(part)/2] ^= 1
				}
				return part, nil
			}
		},
		"it was changed by hand": func(t *testing.T, _ *nodes, a *peer) {
			text, err := os.ReadFile(day(t, a))
			if err != nil {
				t.Fatal(err)
			}
			text[len(text)/2] ^= 1
			if err := os.WriteFile(day(t, a), text, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"a segment is missing": func(t *testing.T, _ *nodes, a *peer) {
			if err := os.Remove(day(t, a)); err != nil {
				t.Fatal(err)
			}
		},
		"the day is missing": func(t *testing.T, _ *nodes, a *peer) {
			if err := os.RemoveAll(filepath.Dir(day(t, a))); err != nil {
				t.Fatal(err)
			}
		},
		"the node vanishes": func(_ *testing.T, n *nodes, _ *peer) {
			n.fault = func(node string, r *Request, part []byte) ([]byte, error) {
				if node == "a" && r.Op == OpSum {
					return nil, context.DeadlineExceeded
				}
				return part, nil
			}
		},
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var n nodes
			a, c, j := begun(t, &n)
			b := n.twin(t, "b", a)
			spoil(t, &n, a)
			err := c.AddEarlier(t.Context(), j, a.offer(t), nil)
			if e := (*PeerError)(nil); !errors.As(err, &e) || e.Node != "a" {
				t.Fatalf("%v", err)
			}
			mustMiss(t, j)
			if err := c.AddEarlier(t.Context(), j, b.offer(t), nil); err != nil {
				t.Fatal(err)
			}
			mustHaveAll(t, j, b)
		})
	}
}

// TestOtherSegments checks that a node with the same rows in other files provides no earlier days,
// and that a day differing from that of most other nodes is not added.
func TestOtherSegments(t *testing.T) {
	t.Parallel()
	var n nodes
	a, c, j := begun(t, &n)
	b := n.add(t, "b", market5)
	if err := c.AddEarlier(t.Context(), j, b.offer(t), nil); err == nil {
		t.Error("days of another journal were added")
	}
	mustMiss(t, j)
	wrong := market5
	wrong.Wrong = 2000 // in the third day
	x, y := n.add(t, "x", wrong), n.add(t, "y", wrong)
	if err := c.AddEarlier(t.Context(), j, a.offer(t), []Offer{*x.offer(t), *y.offer(t)}); !errors.Is(err, errOthers) {
		t.Errorf("%v", err)
	}
	mustMiss(t, j)
	if err := c.AddEarlier(t.Context(), j, a.offer(t), []Offer{*x.offer(t), *b.offer(t)}); err != nil {
		t.Fatal(err)
	}
	mustHaveAll(t, j, a)
}

// TestEarlierDaysFollow checks that a process which ends while it copies earlier days continues
// with those it has, that a node without them can be copied, and what the limits of the journal do.
func TestEarlierDaysFollow(t *testing.T) {
	t.Parallel()
	var n nodes
	a, c, j := begun(t, &n)
	ctx, cancel := context.WithCancel(t.Context())
	c.Ask = func(ctx context.Context, node string, request []byte, f func([]byte) error) error {
		if len(j.Earlier()) == 2 {
			cancel()
		}
		return n.ask(ctx, node, request, f)
	}
	if err := c.AddEarlier(ctx, j, a.offer(t), nil); !errors.Is(err, context.Canceled) || len(j.Days()) != 3 {
		t.Fatalf("%v, days %+v", err, j.Days())
	}
	// Another new node begins with the files of this one.
	b := &peer{Source: Source{Node: "b", Folder: c.Journal, Journal: j, Commit: func() {}}, status: a.status}
	n.list["b"] = b
	c2 := n.copier(t)
	if err := n.from(t, c2, "b"); err != nil {
		t.Fatal(err)
	}
	j2 := open(t, c2, 1000)
	mustMiss(t, j2)
	if err := c2.AddEarlier(t.Context(), j2, b.offer(t), nil); !errors.Is(err, errAbsent) || len(j2.Days()) != 3 {
		t.Errorf("days that the other node does not have: %v, %+v", err, j2.Days())
	}
	if err := c2.AddEarlier(t.Context(), j2, a.offer(t), nil); err != nil {
		t.Error(err)
	}
	mustHaveAll(t, j2, a)
	// A third one keeps two closed days.
	c3 := n.copier(t)
	if err := n.from(t, c3, "a"); err != nil {
		t.Fatal(err)
	}
	j3 := open(t, c3, 2)
	if err := c3.AddEarlier(t.Context(), j3, a.offer(t), nil); !errors.Is(err, ErrLimits) || len(j3.Days()) != 3 {
		t.Errorf("%v, days %+v", err, j3.Days())
	}
}

// TestNewestDays checks which days a new node copies later.
func TestNewestDays(t *testing.T) {
	t.Parallel()
	files := func(dates ...string) (list []File) {
		for _, d := range dates {
			list = append(list, File{Name: d + "/00000001.segz"}, File{Name: d + "/day.idx"})
		}
		return list
	}
	days := func(dates ...string) (list []Day) {
		for _, d := range dates {
			list = append(list, Day{Date: d, Hash: "h"})
		}
		return list
	}
	for name, c := range map[string]struct {
		offer Offer
		files []File
		later int
		next  string
		err   error
	}{
		"three closed days":            {offer: Offer{Days: days("d1", "d2", "d3"), JournalID: "x"}, files: files("d1", "d2", "d3", "d4"), later: 2, next: "d3"},
		"one closed day":               {offer: Offer{Days: days("d1"), JournalID: "x"}, files: files("d1", "d2")},
		"an older program":             {offer: Offer{Days: days("d1", "d2", "d3")}, files: files("d1", "d2", "d3", "d4")},
		"a day was removed":            {offer: Offer{Days: days("d1", "d2", "d3"), JournalID: "x"}, files: files("d2", "d3", "d4")},
		"a day is not closed":          {offer: Offer{Days: days("d1", "d3"), JournalID: "x"}, files: files("d1", "d2", "d3", "d4")},
		"a new node":                   {offer: Offer{Earlier: days("d1", "d2"), Days: days("d3"), JournalID: "x"}, files: files("d3", "d4"), later: 2, next: "d3"},
		"a new node, closed meanwhile": {offer: Offer{Earlier: days("d1", "d2"), JournalID: "x"}, files: files("d3", "d4"), later: 2, next: "d3"},
		"a new node, another day":      {offer: Offer{Earlier: days("d1"), Days: days("d3"), JournalID: "x"}, files: files("d2", "d3"), err: errChange},
		"no files":                     {offer: Offer{Earlier: days("d1"), Days: days("d3"), JournalID: "x"}, err: errChange},
	} {
		e, err := newestDays(c.files, &c.offer)
		if !errors.Is(err, c.err) || len(e.Days) != c.later || e.Next != c.next {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
	if _, err := since(files("d2", "d3"), "d1"); !errors.Is(err, errChange) {
		t.Errorf("the first day was removed: %v", err)
	}
}

// TestForgedEarlierDays checks that the names of files and of days that a node states lead to no
// other folder.
func TestForgedEarlierDays(t *testing.T) {
	t.Parallel()
	var n nodes
	p, c := n.add(t, "a", market5), n.copier(t)
	o := p.offer(t)
	o.Earlier = []Day{{Date: "../../2025-11-01", Hash: "h"}}
	if err := c.Copy(t.Context(), o, nil); err != nil {
		t.Fatal(err)
	}
	j := open(t, c, 1000)
	for len(j.Earlier()) > 1 {
		if err := c.AddEarlier(t.Context(), j, o, nil); err == nil || len(j.Earlier()) != 1 {
			t.Fatalf("%v, earlier %+v", err, j.Earlier())
		}
	}
}
