package cluster

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestForgedReports checks that reports which no node sends change neither the terms and positions
// of the log nor its clock, that they take limited memory, and that other reports still count.
func TestForgedReports(t *testing.T) {
	b := newBench(t, Config{Name: "a", Candidate: true})
	first := History{"e", []Start{{Term{1, 5}, 0}}}
	b.do(Reported{Report{Node: "b", History: first, Position: 3}})
	for name, r := range map[string]Report{
		"highest":                      {Highest: math.MaxUint64},
		"term":                         {History: History{"e", []Start{{Term{math.MaxUint64, 5}, 0}}}},
		"position":                     {History: first, Position: math.MaxUint64},
		"base":                         {History: History{"e", []Start{{Term{1, 5}, math.MaxUint64}}}, Position: 3},
		"terms":                        {History: History{"e", make([]Start, maxStarts+1)}},
		"epoch":                        {History: History{strings.Repeat("e", maxName+1), first.Starts}},
		"":                             {History: first},
		strings.Repeat("n", maxName+1): {History: first},
	} {
		r.Node = name
		if b.do(Reported{r}); len(b.node.known) != 1 {
			t.Fatalf("the report with a wrong %.20s is kept: %+v", name, r)
		}
	}
	b.do(Reported{Report{Node: "time", History: first, Time: math.MaxInt64, Seen: math.MaxInt64}})
	if c := b.node.Clock(); c.Read(b.now, int64(time.Hour)) > int64(2*time.Hour) || b.node.firstTime(b.now, int64(time.Hour)) > int64(2*time.Hour) {
		t.Error("a report of a node has moved the clock of the log to a far future")
	}
	for i := range 2 * maxKnown {
		b.do(Reported{Report{Node: fmt.Sprint("node-", i), History: first, Sources: make([]Source, 10)}})
	}
	b.do(Reported{Report{Node: "b", History: first, Position: 4}})
	if n := len(b.node.known); n != maxKnown || b.node.known["b"].Position != 4 || b.node.known["node-1"].Sources != nil {
		t.Errorf("%d nodes are known, b has %+v", n, b.node.known["b"])
	}
	b.now += b.node.cfg.Retire
	if b.do(Reported{Report{Node: "later", History: first}}); len(b.node.known) != 1 {
		t.Errorf("%d nodes are known that are silent", len(b.node.known)-1)
	}
}

// TestForgedRows checks that an answer with rows from a node that states an impossible term or time
// does not change the node.
func TestForgedRows(t *testing.T) {
	for name, change := range map[string]func(*Report){
		"term": func(r *Report) {
			r.History.Starts = append(r.History.Starts, Start{Term{math.MaxUint64, 9}, 5})
		},
		"time": func(r *Report) { r.Time = math.MaxInt64 },
	} {
		b := newBench(t, Config{Name: "a"})
		b.do(Attached{})
		one := Term{1, 5}
		batch := Batch{Cluster: "c", ID: ID{one, 0}, Epoch: "e", Kind: TermRow, First: true, Final: true, History: History{"e", []Start{{one, 0}}}}
		b.do(Received{1, AppendBatch(nil, &batch)})
		batch = Batch{Cluster: "c", ID: ID{one, 5}, Epoch: "e", Kind: NewRows, First: true, Final: true, Prev: 5, Last: 6, Data: rowsOf(5, 6, 0)}
		b.do(Received{2, AppendBatch(nil, &batch)})
		of[Fetch](b)
		from := Report{Node: "b", History: History{"e", []Start{{one, 0}}}, Position: 5}
		change(&from)
		b.do(Fetched{From: from, Groups: []Group{{Prev: 0, Last: 5, Data: rowsOf(0, 5, 0)}}})
		if s := b.node.Status(); s.Term != one || s.LogTime > int64(48*time.Hour) {
			t.Errorf("after a forged %s: %+v", name, s)
		}
	}
}

// TestForgedBatches checks that batches which no leader appends do not change a node, and take
// limited memory.
func TestForgedBatches(t *testing.T) {
	t.Parallel()
	one := Term{1, 5}
	rows := func(x Batch) []Batch {
		x.ID, x.Epoch, x.Kind = ID{Term: one, Number: 1}, "e", NewRows
		return []Batch{x}
	}
	var endless []Batch
	for i := range 2 * maxGroup >> 19 {
		endless = append(endless, Batch{ID: ID{Term: one, Number: uint64(i + 1)}, Epoch: "e", Kind: NewRows, First: i == 0, Last: 1, Data: make([]byte, 1<<19)})
	}
	for name, list := range map[string][]Batch{
		"a great term":           {{ID: ID{Term: Term{math.MaxUint64, 1}, Number: 1}, Epoch: "f", Kind: NewRows, First: true, Final: true}},
		"a great time":           rows(Batch{First: true, Final: true, Time: math.MaxInt64}),
		"a negative time":        rows(Batch{First: true, Final: true, Time: -1}),
		"positions without rows": rows(Batch{First: true, Final: true, Last: 1 << 62}),
		"rows without positions": rows(Batch{First: true, Final: true, Data: rowsOf(0, 5, 0)}),
		"damaged rows":           rows(Batch{First: true, Final: true, Last: 5, Data: rowsOf(0, 5, 0)[1:]}),
		"a group without an end": endless,
	} {
		b := newBench(t, Config{Name: "a", Candidate: true})
		b.do(Attached{})
		for _, x := range append([]Batch{{ID: ID{Term: one}, Epoch: "e", Kind: TermRow, First: true, Final: true, History: History{"e", []Start{{one, 0}}}}}, list...) {
			x.Cluster = "c"
			b.seq++
			b.do(Received{b.seq, AppendBatch(nil, &x)})
			if f := &b.node.follower; has[Apply](b) || len(f.part) > maxGroup || f.Highest > 1 || f.Position > 0 || f.Time < 0 || f.Time > int64(48*time.Hour) {
				t.Fatalf("%s: %+v", name, b.node.Status())
			}
		}
		if s := b.node.Status(); s.Ignored == 0 {
			t.Errorf("%s is not counted: %+v", name, s)
		}
		good := Batch{Cluster: "c", ID: ID{Term: one, Number: 1000}, Epoch: "e", Kind: NewRows, First: true, Final: true, Last: 5, Data: rowsOf(0, 5, 0)}
		b.do(Received{b.seq + 1, AppendBatch(nil, &good)})
		if a := of[Apply](b); a.Last != 5 {
			t.Errorf("after %s: %+v", name, a)
		}
	}
}

// TestReportWithoutTerms checks that a report of an epoch without terms does not count: a candidate
// would begin with the rows of that node.
func TestReportWithoutTerms(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Name: "a", Candidate: true})
	b.do(Reported{Report{Node: "b", Position: 100, History: History{Epoch: "e"}}})
	b.do(Reported{Report{Node: "d", Position: 100}}) // it has lost its state
	if _, known := b.node.known["b"]; known || len(b.node.known) != 1 {
		t.Errorf("%+v", b.node.known)
	}
}

// TestFetchedDefinitions requires that definitions are applied which come before fetched rows.
func TestFetchedDefinitions(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Name: "a"})
	b.do(Attached{})
	one := Term{1, 5}
	for i, batch := range []Batch{
		{ID: ID{Term: one}, Kind: TermRow, History: History{"e", []Start{{one, 0}}}},
		{ID: ID{one, 5}, Kind: NewRows, Prev: 5, Last: 6, Data: rowsOf(5, 6, 0)},
	} {
		batch.Cluster, batch.Epoch, batch.First, batch.Final = "c", "e", true, true
		b.do(Received{uint64(i + 1), AppendBatch(nil, &batch)})
	}
	of[Fetch](b)
	from := Report{Node: "b", History: History{"e", []Start{{one, 0}}}, Position: 5}
	b.do(Fetched{From: from, Groups: []Group{{Data: rowsOf(0, 0, 400)}, {Last: 5, Data: rowsOf(0, 5, 0)}}})
	var applied []uint64
	for _, a := range b.out {
		if a, ok := a.(Apply); ok && len(a.Data) > 0 {
			applied = append(applied, a.Last)
		}
	}
	if !slices.Equal(applied, []uint64{0, 5}) {
		t.Errorf("applied up to %d", applied)
	}
}
