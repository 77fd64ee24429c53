package history

import (
	"math"
	"testing"
)

// TestAbsence checks which pages are refused while earlier days are missing. Rows before time 100,
// and before N 50 of the newest epoch, are missing.
func TestAbsence(t *testing.T) {
	t.Parallel()
	last, virtual := &page{}, absence{until: math.MaxInt64, epoch: "e2", oldest: 50}
	more := &page{next: &cursor{"e2", 60}}
	a := absence{until: 100, epoch: "e2", oldest: 50}
	at := func(epoch string, n uint64, desc bool) query {
		return query{at: cursor{epoch, n}, continues: true, desc: desc}
	}
	for name, c := range map[string]struct {
		a    absence
		q    query
		page *page
		want bool
	}{
		"all days are there":                    {absence{}, query{}, last, false},
		"from the beginning":                    {a, query{}, more, true},
		"from an early time":                    {a, query{start: 99}, more, true},
		"from a later time":                     {a, query{start: 100}, last, false},
		"from a time of a virtual clock":        {virtual, query{start: 100}, last, true},
		"the newest, and there are more":        {a, query{desc: true}, more, false},
		"the newest, and there are no more":     {a, query{desc: true}, last, true},
		"the newest since a time":               {a, query{desc: true, start: 100}, last, false},
		"after a missing N":                     {a, query{since: true, after: 48, epoch: "e2"}, last, true},
		"after the last missing N":              {a, query{since: true, after: 49, epoch: "e2"}, last, false},
		"the newest after the last missing N":   {a, query{since: true, after: 49, epoch: "e2", desc: true}, last, false},
		"the newest after a missing N":          {a, query{since: true, after: 10, epoch: "e2", desc: true}, last, true},
		"the newest epoch":                      {a, query{epoch: "e2", named: true}, last, true},
		"the newest epoch, which is there":      {absence{until: 100, epoch: "e2", oldest: 1}, query{epoch: "e2", named: true}, last, false},
		"continues in the newest epoch":         {a, at("e2", 49, false), last, false},
		"continues before":                      {a, at("e2", 48, false), last, true},
		"continues in an earlier epoch":         {a, at("e1", 500, false), last, true},
		"continues backwards to the end":        {a, at("e2", 70, true), last, true},
		"continues backwards, there are more":   {a, at("e2", 70, true), more, false},
		"begins the newest epoch with a cursor": {a, at("e2", 0, false), last, true},
	} {
		if got := c.a.hides(&c.q, c.page); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
