//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// shop returns a runner for the module of testdata.
func shop(t *testing.T, s settings) *runner {
	t.Helper()
	tr, err := readTree(t.Context(), "testdata/shop")
	if err != nil {
		t.Fatal(err)
	}
	return &runner{tree: tr, settings: s, scratch: t.TempDir(), clean: map[string]cleanRun{}}
}

// shopProfile returns a coverage profile of the module of testdata.
var shopProfile = sync.OnceValues(func() ([]byte, error) {
	folder, err := os.MkdirTemp("", "mutants-test-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	name := filepath.Join(folder, "cover.out")
	cmd := exec.Command("go", "test", "-coverpkg=./...", "-coverprofile="+name, "-skip=Broken|Slow", "./...")
	cmd.Dir = "testdata/shop"
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, text)
	}
	return os.ReadFile(name)
})

// coverage returns the name of a file with shopProfile.
func coverage(t *testing.T) string {
	t.Helper()
	text, err := shopProfile()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "cover.out")
	if err := os.WriteFile(name, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// allMutants returns the mutants of all executed statements of the module of testdata.
func allMutants(t *testing.T) (all []mutant) {
	t.Helper()
	p, err := readProfiles([]string{coverage(t)})
	if err != nil {
		t.Fatal(err)
	}
	statements, err := shop(t, settings{}).tree.statements(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statements {
		for _, kind := range s.kinds {
			all = append(all, kind...)
		}
	}
	return all
}

// find returns the first mutant of a kind in a line with a text.
func find(t *testing.T, file, text, kind string) mutant {
	t.Helper()
	for _, m := range allMutants(t) {
		if m.File == file && strings.Contains(m.Lines[0], text) && m.Kind == kind {
			return m
		}
	}
	t.Fatalf("%s has no %s with %q", file, kind, text)
	return mutant{}
}

// TestOutcomes checks the result of mutants, with the test that decides it.
func TestOutcomes(t *testing.T) {
	both := []string{"-skip E2E", "-run E2E"}
	for _, c := range []struct {
		name, file, text, kind string
		runWith                []string
		limit                  time.Duration
		want                   string
	}{
		{"own test", "cart/cart.go", "sum +=", kindStatement, both, time.Minute, "killed by TestSum of cart"},
		{"subtest", "price/price.go", "total +=", kindStatement, both, time.Minute, "killed by TestTotal/three of price"},
		{"importer", "price/price.go", "if n >= 10", kindCondition, both, time.Minute, "killed by TestSum of cart"},
		{"second arguments", "price/price.go", "fee = max", kindStatement, []string{"-run E2E", "-run Sum"}, time.Minute, "killed by TestSum of cart"},
		{"E2E", "price/price.go", "fee := 5", kindConstant, both, time.Minute, "killed by TestFewE2E of cart"},
		{"not in the first arguments", "price/price.go", "fee := 5", kindConstant, both[:1], time.Minute, "survived"},
		{"no tests", "price/price.go", "fee := 5", kindConstant, []string{"-run None"}, time.Minute, "survived"},
		{"endless loop", "price/price.go", "for n >= 10", kindCondition, both, 30 * time.Second, "timed out by TestRebate of price"},
		{"slow tests", "stock/stock.go", "left -=", kindStatement, []string{"-run Slow"}, 8 * time.Second, "time ran out"},
		{"broken tests", "stock/stock.go", "left -=", kindStatement, []string{"-run Broken", "-run Left"}, time.Minute, "unclear by TestBroken of stock"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := shop(t, settings{RunWith: c.runWith, Limit: c.limit})
			o, err := r.try(t.Context(), find(t, c.file, c.text, c.kind))
			if o.String() != c.want || err != nil {
				t.Errorf("%s, %v; want %s", o, err, c.want)
			}
			if took := time.Duration(o.Seconds * float64(time.Second)); c.want == "time ran out" && took > 3*time.Minute {
				t.Errorf("it took %s with a limit of %s", took, c.limit)
			}
		})
	}
}

// TestLost checks the results of mutants that have no place or do not compile, and that wrong
// arguments of go test are an error.
func TestLost(t *testing.T) {
	r := shop(t, settings{RunWith: []string{"-p=none"}, Limit: time.Minute})
	m := find(t, "price/price.go", "fee = max", kindStatement)
	if o, err := r.try(t.Context(), m); err == nil {
		t.Errorf("wrong arguments: %s", o)
	}
	bad := m
	bad.New = "fee = none"
	if o, err := r.try(t.Context(), bad); o.Status != notCompile || err != nil {
		t.Errorf("%s, %v", o, err)
	}
	for _, file := range []string{
		"price/none.go", "none/price.go", "cart/cart.go", "price/fee_windows.go", "price/fee_tagged.go", "price/fee_test.go",
	} {
		m.File = file
		if o, err := r.try(t.Context(), m); o.Status != gone || err != nil {
			t.Errorf("%s: %s, %v", file, o, err)
		}
	}
}

// TestBuildOfTests checks that a test that does not compile with a mutant kills it.
func TestBuildOfTests(t *testing.T) {
	r := shop(t, settings{RunWith: []string{""}, Limit: time.Minute})
	m := find(t, "price/price.go", "fee = max", kindStatement)
	m.Old, m.New = "Shipping(n int) int {", "Shipping(n int) int8 {"
	m.Line, m.Column, m.Lines = 25, 6, []string{"func Shipping(n int) int {"}
	m.Before, m.After = nil, nil
	o, err := r.try(t.Context(), m)
	if o.Status != notCompile || err != nil {
		t.Errorf("%s, %v", o, err)
	}
	m.New = "Shipping(n, _ int) int {"
	o, err = r.try(t.Context(), m)
	if o.String() != "killed by the build or a panic of cart" || err != nil {
		t.Errorf("%s, %v", o, err)
	}
}

// TestResume checks that a run keeps the results of its file, and that results with other settings
// are refused.
func TestResume(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	first, second := find(t, "cart/cart.go", "sum +=", kindStatement), find(t, "price/price.go", "fee := 5", kindConstant)
	lost := first
	lost.File = "cart/none.go"
	d := drawing{Seed: "x", Statements: 3, Mutants: []mutant{first, second, lost}}
	r := shop(t, settings{Commit: "c", RunWith: []string{"-skip E2E"}, Limit: time.Minute})
	old := results{Settings: r.settings, drawing: d, Results: []result{{first, outcome{Status: survived, At: "here"}}}}
	if err := writeJSON(file, old); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := measure(ended, r, d, file); err == nil {
		t.Error("a run that is interrupted has no error")
	}
	if err := measure(t.Context(), r, d, file); err != nil {
		t.Fatal(err)
	}
	got := results{Settings: r.settings, drawing: d}
	if err := got.load(file); err != nil {
		t.Fatal(err)
	}
	var statuses []string
	for _, r := range got.Results {
		statuses = append(statuses, r.Status)
	}
	if fmt.Sprint(statuses) != "[survived survived gone]" || got.Results[0].At != "here" {
		t.Errorf("results %v", statuses)
	}
	var out bytes.Buffer
	got.print(&out)
	const want = "survived:\n  here statement\n    - sum += price.Shipping(n)\n    + \n" +
		"  price/price.go:29 constant\n    - fee := 5\n    + fee := (5 + 1)\n" +
		"\ngone:\n  cart/none.go:9 statement\n    - sum += price.Shipping(n)\n    + \n"
	if !strings.HasSuffix(out.String(), want) || !strings.Contains(out.String(), "Killed: 0 of 2, 0 %.") {
		t.Errorf("printed\n%s", out.String())
	}
	r.Limit++
	if err := measure(t.Context(), r, d, file); err == nil {
		t.Error("results with another limit are accepted")
	}
	r.Limit--
	r.Commit = ""
	old.Settings = r.settings
	if err := writeJSON(file, old); err != nil {
		t.Fatal(err)
	}
	if err := measure(t.Context(), r, d, file); err == nil || !strings.Contains(err.Error(), "choose another file, or delete it") {
		t.Errorf("results without a commit: %v", err)
	}
}

// TestCommit checks that only the root of a git work tree has a commit.
func TestCommit(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "folder")
	if err := os.CopyFS(folder, os.DirFS("testdata/shop/cart")); err != nil {
		t.Fatal(err)
	}
	if c := commit(t.Context(), dir); c != "" {
		t.Errorf("a tree without git has commit %s", c)
	}
	for _, args := range []string{"init -q", "add .", "-c user.name=a -c user.email=a@example.com commit -q -m first"} {
		cmd := exec.Command("git", strings.Fields(args)...)
		cmd.Dir = dir
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", args, err, text)
		}
	}
	clean := commit(t.Context(), dir)
	if len(clean) != 40 {
		t.Errorf("the root has commit %q", clean)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if c := commit(t.Context(), link); c != clean {
		t.Errorf("a link to the root has commit %q", c)
	}
	if c := commit(t.Context(), folder); c != "" {
		t.Errorf("a folder in a clone has commit %s", c)
	}
	if err := os.WriteFile(filepath.Join(folder, "cart.go"), []byte("package cart\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if c := commit(t.Context(), dir); c != clean+"-dirty" {
		t.Errorf("after a change the root has commit %q", c)
	}
}

// TestFind checks that a mutant gets the result of an equal one alone, also after results were
// written and read.
func TestFind(t *testing.T) {
	dropped := find(t, "cart/cart.go", "sum +=", kindStatement)
	file := filepath.Join(t.TempDir(), "results.json")
	if err := writeJSON(file, results{Results: []result{{dropped, outcome{Status: killed}}}}); err != nil {
		t.Fatal(err)
	}
	var all results
	if err := readJSON(file, &all); err != nil {
		t.Fatal(err)
	}
	if r := all.find(dropped); r == nil || r.Status != killed {
		t.Errorf("the result of the mutant is %+v", r)
	}
	for name, change := range map[string]func(*mutant){
		"file":         func(m *mutant) { m.File = "cart/other.go" },
		"line":         func(m *mutant) { m.Line++ },
		"column":       func(m *mutant) { m.Column++ },
		"function":     func(m *mutant) { m.Func = "Product" },
		"new text":     func(m *mutant) { m.New = "\n" },
		"old text":     func(m *mutant) { m.Old = "sum -= price.Shipping(n)" },
		"lines":        func(m *mutant) { m.Lines = []string{"\t\tsum -= price.Shipping(n)"} },
		"lines before": func(m *mutant) { m.Before = m.Before[1:] },
		"lines after":  func(m *mutant) { m.After = nil },
	} {
		other := dropped
		change(&other)
		if r := all.find(other); r != nil {
			t.Errorf("another %s: the result is %s", name, r.outcome)
		}
	}
}

// TestListAndApply checks the command with a list, from the draw to the results.
func TestListAndApply(t *testing.T) {
	folder := t.TempDir()
	list, file := filepath.Join(folder, "list.json"), filepath.Join(folder, "results.json")
	o := options{tree: "testdata/shop", cover: coverage(t), seed: "x", n: 2, list: list}
	if err := run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("results exist before the run: %v", err)
	}
	o = options{tree: "testdata/shop", apply: list, json: file, settings: settings{RunWith: []string{"-run Total"}, Limit: time.Minute}}
	if err := run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	var got results
	if err := readJSON(file, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Results) != 2 || got.Seed != "x" {
		t.Errorf("results %+v", got)
	}
	if err := run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "not the root of a git work tree") {
		t.Errorf("results of a folder in a clone, or of none: %v", err)
	}
	if err := run(t.Context(), options{tree: "testdata/shop"}); err == nil {
		t.Error("neither a profile nor a list is an error")
	}
}
