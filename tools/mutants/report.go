//go:build unix

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"text/tabwriter"
)

// result is a mutant with its outcome.
type result struct {
	mutant
	outcome
}

// results is the content of a file of results.
type results struct {
	Settings settings `json:"settings"`
	drawing
	Results []result `json:"results"`
}

// load adds the results of a file, which may not exist. Without a commit it refuses a file, which
// may have the results of another tree.
func (a *results) load(file string) error {
	var old results
	if err := readJSON(file, &old); errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if a.Settings.Commit == "" {
		return fmt.Errorf("%s may have results of another tree, because this one is not the root of a git work tree with a commit: "+
			"choose another file, or delete it", file)
	}
	if !reflect.DeepEqual(old.Settings, a.Settings) {
		return fmt.Errorf("%s has results of another commit, -run-with or -limit: choose another file, or delete it", file)
	}
	a.Results = old.Results
	return nil
}

// find returns the result of a mutant; nil: none. Old text and context must be equal too, because
// another list may drop another statement at the same place.
func (a *results) find(m mutant) *result {
	for i := range a.Results {
		if reflect.DeepEqual(a.Results[i].mutant, m) {
			return &a.Results[i]
		}
	}
	return nil
}

// print writes the results of the mutants: a table, and those that no test found.
func (a *results) print(w io.Writer) {
	kinds := []string{kindCondition, kindStatement, kindConstant, "all"}
	statuses := []string{killed, timedOut, survived, ranOut, unclear, gone, notCompile}
	counts := map[[2]string]int{}
	for _, m := range a.Mutants {
		r := a.find(m)
		for _, kind := range []string{m.Kind, "all"} {
			counts[[2]string{kind, r.Status}]++
			counts[[2]string{kind, "mutants"}]++
		}
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "kind\tmutants")
	for _, s := range statuses {
		fmt.Fprintf(table, "\t%s", s)
	}
	fmt.Fprintln(table)
	for _, kind := range kinds {
		fmt.Fprintf(table, "%s\t%d", kind, counts[[2]string{kind, "mutants"}])
		for _, s := range statuses {
			fmt.Fprintf(table, "\t%d", counts[[2]string{kind, s}])
		}
		fmt.Fprintln(table)
	}
	table.Flush()
	found := counts[[2]string{"all", killed}] + counts[[2]string{"all", timedOut}]
	decided := found + counts[[2]string{"all", survived}]
	fmt.Fprintf(w, "\nKilled: %d of %d, %.0f %%. Drawn from %d statements with seed %s; %d did not compile.\n",
		found, decided, 100*float64(found)/float64(max(decided, 1)), a.Statements, a.Seed, a.NotCompiled)
	for _, s := range statuses[2:] {
		title := "\n" + s + ":\n"
		for _, m := range a.Mutants {
			if r := a.find(m); r.Status == s {
				fmt.Fprintf(w, "%s  %s %s\n%s", title, cmp.Or(r.At, m.place()), m.Kind, m.diff())
				title = ""
			}
		}
	}
}
