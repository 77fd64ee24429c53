package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/ruedahq/rueda/internal/cluster"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/journal/journaltest"
	"github.com/ruedahq/rueda/market"
)

// TestEndlessRows checks that an answer with rows that does not end is left.
func TestEndlessRows(t *testing.T) {
	head, err := json.Marshal(cluster.Report{Node: "a"})
	if err != nil {
		t.Fatal(err)
	}
	for name, group := range map[string]cluster.Group{"empty": {}, "large": {Data: make([]byte, 256<<10)}} {
		part, err := json.Marshal(group)
		if err != nil {
			t.Fatal(err)
		}
		f, rest, half, n := cluster.Fetched{}, maxFetched, maxFetched/2, 0
		if err := add(&f, &rest, head); err != nil || f.From.Node != "a" {
			t.Fatal(err)
		}
		for err = nil; err == nil; n++ {
			err = add(&f, &rest, part)
		}
		if !errors.Is(err, errTooMuch) || (n-1)*len(part) > maxFetched || len(group.Data) > 0 && (n-1)*len(group.Data) < fetchBytes {
			t.Errorf("%s groups: %d parts of %d bytes are taken, %v", name, n, len(part), err)
		}
		if err := add(&f, &half, []byte("{")); err == nil || errors.Is(err, errTooMuch) {
			t.Error("half an answer is taken")
		}
	}
	rest, f := maxFetched, cluster.Fetched{}
	if err := add(&f, &rest, []byte(`"`)); err == nil {
		t.Error("an answer without a report is taken")
	}
}

// TestFetchedDefinitions requires that a node which fetches rows gets the definitions of
// instruments that have no rows yet: the stream has their rows, and not the definitions any more.
func TestFetchedDefinitions(t *testing.T) {
	days := journaltest.Days{Folder: t.TempDir(), Closed: 1, Rows: 20}
	days.Write(t)
	j, err := journal.Open(t.Context(), journal.Config{Folder: days.Folder, BootID: "same"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close() }()
	const added = 3000 // more than one group
	for i := range added {
		j.Define(market.Instrument{ID: market.InstrumentID{Symbol: fmt.Sprintf("NEW%0100d", i), Market: "M", Term: "CI"}})
	}
	first := days.Position() - 10
	for known, want := range map[uint32]int{j.Numbers(): 0, j.Numbers() - 5: 5, 0: added} {
		groups, err := groupsOf(t.Context(), j, first, days.Position(), known)
		if err != nil {
			t.Fatal(err)
		}
		defined, rows, at := map[uint32]bool{}, 0, first
		for _, g := range groups {
			if g.Prev != at || len(g.Data) > 2*fetchGroup {
				t.Errorf("a group of %d bytes from %d to %d, after %d", len(g.Data), g.Prev, g.Last, at)
			}
			at = g.Last
			err := new(cluster.Records).Each(g.Data, func(n uint32, _ []byte) error { defined[n] = true; return nil }, func(*journal.Row) error { rows++; return nil })
			if err != nil {
				t.Fatal(err)
			}
		}
		if rows != 10 || at != days.Position() || len(defined) < want || len(defined) > want+1 {
			t.Errorf("a node that knows %d instruments gets %d definitions, and %d rows up to %d", known, len(defined), rows, at)
		}
	}
}
