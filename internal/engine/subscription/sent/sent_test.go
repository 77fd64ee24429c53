package sent

import (
	"reflect"
	"testing"

	"github.com/ruedahq/rueda/market"
)

func id(t *testing.T, s string) market.InstrumentID {
	t.Helper()
	x, err := market.ParsePattern(s)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// rows returns rows of two instruments and two patterns of market M.
func rows(t *testing.T) *Rows {
	r := &Rows{}
	r.Put(id(t, "A|M|CI"), To{Pos: 70, N: 7, HasN: true})
	r.Put(id(t, "B|M|CI"), To{Unseen: true})
	r.PutPattern(Pattern{ID: id(t, "*|M|CI"), Pos: 50, From: id(t, "*|M|CI")})
	r.PutPattern(Pattern{ID: id(t, "*|M|*"), Pos: 60, From: id(t, "*|M|*")})
	return r
}

// TestOf checks that an instrument's own entry comes before patterns, and the first pattern before
// later ones.
func TestOf(t *testing.T) {
	var none *Rows
	for _, c := range []struct {
		r             *Rows
		id            string
		pos           uint64
		ok            bool
		unseen, known bool
	}{
		{rows(t), "A|M|CI", 70, true, false, true},
		{rows(t), "B|M|CI", 0, false, true, true},
		{rows(t), "C|M|CI", 50, true, false, true},
		{rows(t), "C|M|24hs", 60, true, false, true},
		{rows(t), "C|OTHER|CI", 0, false, false, false},
		{none, "A|M|CI", 0, false, false, false},
	} {
		x, ok := c.r.Of(id(t, c.id))
		unseen, known := c.r.Unseen(id(t, c.id))
		if x.Pos != c.pos || ok != c.ok || unseen != c.unseen || known != c.known {
			t.Errorf("%s: %+v %v, unseen %v %v; want %+v", c.id, x, ok, unseen, known, c)
		}
	}
	none.SeeAll()
	if none.Len() != 0 {
		t.Errorf("nil rows have %d entries", none.Len())
	}
}

// TestPositions checks the positions that all rows of an identifier have reached.
func TestPositions(t *testing.T) {
	r := rows(t)
	if r.Most != 70 || r.Len() != 4 || !r.PatternBefore(51) || r.PatternBefore(50) {
		t.Errorf("%+v", r)
	}
	r.SeeAll()
	if unseen, known := r.Unseen(id(t, "B|M|CI")); unseen || !known {
		t.Error("a snapshot was sent and is due")
	}
	r.Level()
	for name, want := range map[string]uint64{"A|M|CI": 70, "C|M|CI": 70, "*|M|CI": 70, "*|OTHER|*": 0} {
		if got := r.Least(id(t, name)); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

// TestCovered checks the entries that pass to an identifier.
func TestCovered(t *testing.T) {
	all := func(*Pattern) bool { return true }
	if got := rows(t).Covered(id(t, "C|M|CI"), all); got.Len() != 1 || got.Exact[id(t, "C|M|CI")].Pos != 50 {
		t.Errorf("an instrument: %+v", got)
	}
	if got := rows(t).Covered(id(t, "C|OTHER|CI"), all); got.Len() != 0 {
		t.Errorf("an instrument of another market: %+v", got)
	}
	got := rows(t).Covered(id(t, "B|*|*"), func(p *Pattern) bool { return p.From == id(t, "*|M|*") })
	want := &Rows{}
	want.Put(id(t, "B|M|CI"), To{Unseen: true})
	want.PutPattern(Pattern{ID: id(t, "B|M|*"), Pos: 60, From: id(t, "*|M|*")})
	if !reflect.DeepEqual(got, want) {
		t.Errorf("a pattern: %+v, want %+v", got, want)
	}
}

// TestOver checks that newer entries replace older ones of the same identifier, and change neither
// list.
func TestOver(t *testing.T) {
	r := &Rows{}
	r.Put(id(t, "B|M|CI"), To{Pos: 90})
	r.PutPattern(Pattern{ID: id(t, "*|M|*"), Pos: 80})
	got := r.Over(rows(t))
	if _, own := got.Exact[id(t, "A|M|CI")]; own || got.Exact[id(t, "B|M|CI")].Pos != 90 || len(got.Patterns) != 2 || got.Most != 90 {
		t.Errorf("%+v", got)
	}
	if r.Len() != 2 || len(r.Over(nil).Patterns) != 1 {
		t.Errorf("the newer list has changed: %+v", r)
	}
}
