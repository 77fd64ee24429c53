//go:build unix

// Command mutants measures the tests of a module. It changes one executed statement at a time and
// reports the changes, called mutants, for which no test fails.
//
//	mutants [-tree DIR] -cover FILE[,FILE...] [-seed TEXT] [-n 60] [-list FILE | -json FILE]
//	mutants [-tree DIR] -apply FILE [-json FILE]
//
// It draws statements of product code that the coverage profiles count as executed, each with the
// same probability. A kind of change is then drawn from those that the statement allows:
//
//   - condition: the condition of an if or for statement is negated
//   - statement: an assignment, a call, ++, -- or a return without results is dropped. Declarations
//     with := stay, because the code after them would not compile.
//   - constant: an integer in the source becomes one more or one less
//
// A change that does not compile is replaced by the next one of the draw, and counted. A draw of
// 100 begins with the mutants of a draw of 60. Product code is all of the main module except tests,
// their support, generated files, and folders named bench, examples, tests or tools. Support of
// tests is a package that imports testing or other support, a package with a name that ends in
// test, and an internal package that only tests and support import.
//
// A mutant is tested with its package, then with the packages that import it in code or tests. Each
// -run-with names arguments of go test, separated by spaces, and they apply in order until a test
// fails. By default these are -skip E2E and then -run E2E. A package without a matching test is
// left out. The tree stays unchanged: GOFLAGS has an overlay, also for programs that tests build.
//
// The results are:
//
//   - killed: a test failed, and it passes without the mutant
//   - timed out: a package was still running at the -limit of the mutant, and without the mutant it
//     passes in the time that it had. This counts as killed.
//   - survived: all tests passed
//   - time ran out: the limit ended the tests, which are no faster without the mutant
//   - unclear: the tests that failed also fail without the mutant
//   - gone: the mutant of a list has no place in the files of this tree that are built here
//   - does not compile: a mutant of a list does not compile in this tree
//
// -list writes the mutants to a file and runs none. -apply runs those of such a file, also in
// another tree: it finds the same lines, in the same function if the list has it, with at least
// half of the lines around them. -json keeps the results. A second run with the same file, commit
// and settings continues it, if the tree is the root of a git work tree. Delete the file after a
// change that is not committed.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

type options struct {
	tree, cover, seed, list, apply, json string
	n                                    int
	settings
}

func main() {
	o := options{}
	flag.StringVar(&o.tree, "tree", ".", "folder of the module")
	flag.StringVar(&o.cover, "cover", "", "coverage profiles of go test, separated by commas")
	flag.StringVar(&o.seed, "seed", "", "text that determines the draw (default the hash of the commit)")
	flag.IntVar(&o.n, "n", 60, "number of mutants")
	flag.StringVar(&o.list, "list", "", "write the drawn mutants to this file and do not run them")
	flag.StringVar(&o.apply, "apply", "", "run the mutants of this file")
	flag.StringVar(&o.json, "json", "", "file of the results; those that it has are kept")
	flag.DurationVar(&o.Limit, "limit", 5*time.Minute, "time for the tests of a mutant")
	flag.Func("run-with", "arguments of go test (repeatable; default -skip E2E, then -run E2E)", func(s string) error {
		o.RunWith = append(o.RunWith, s)
		return nil
	})
	flag.Parse()
	if o.RunWith == nil {
		o.RunWith = []string{"-skip E2E", "-run E2E"}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	if (o.cover == "") == (o.apply == "") || flag.NArg() > 0 {
		return errors.New("either -cover or -apply is needed, and no other argument")
	}
	t, err := readTree(ctx, o.tree)
	if err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "./...") // so that only mutants can fail to compile
	build.Dir = t.dir
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build without a mutant: %w\n%s", err, text)
	}
	scratch, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	o.Commit = commit(ctx, t.dir)
	r := &runner{tree: t, settings: o.settings, scratch: scratch, clean: map[string]cleanRun{}}
	var d drawing
	if o.apply != "" {
		if err := readJSON(o.apply, &d); err != nil {
			return err
		}
	} else if d, err = draw(ctx, r, o); err != nil {
		return err
	}
	if o.list != "" {
		return writeJSON(o.list, d)
	}
	return measure(ctx, r, d, o.json)
}

// draw draws the mutants of a tree.
func draw(ctx context.Context, r *runner, o options) (drawing, error) {
	p, err := readProfiles(strings.Split(o.cover, ","))
	if err != nil {
		return drawing{}, err
	}
	all, err := r.tree.statements(p)
	if err != nil {
		return drawing{}, err
	}
	d := drawing{Seed: cmp.Or(o.seed, git(ctx, r.tree.dir, "rev-parse", "HEAD")), Statements: len(all)}
	if d.Seed == "" {
		return d, errors.New("the tree has no commit: -seed is needed")
	}
	for _, m := range order(all, d.Seed) {
		if len(d.Mutants) == o.n {
			break
		}
		switch _, _, status, err := r.prepare(ctx, m); {
		case err != nil:
			return d, fmt.Errorf("%s: %w", m.place(), err)
		case status == notCompile:
			d.NotCompiled++
		case status == gone:
			return d, fmt.Errorf("%s changed during the draw", m.File)
		default:
			d.Mutants = append(d.Mutants, m)
		}
	}
	fmt.Fprintf(os.Stderr, "drew %d mutants from %d statements; %d did not compile\n", len(d.Mutants), d.Statements, d.NotCompiled)
	return d, nil
}

// measure tests the mutants of d, except those with a result in the file, and prints the table.
func measure(ctx context.Context, r *runner, d drawing, file string) error {
	all := results{Settings: r.settings, drawing: d}
	if file != "" {
		if err := all.load(file); err != nil {
			return err
		}
	}
	began, ran := time.Now(), 0
	for i, m := range d.Mutants {
		if all.find(m) != nil {
			continue
		}
		o, err := r.try(ctx, m)
		if err != nil {
			return fmt.Errorf("%s: %w", m.place(), err)
		}
		all.Results = append(all.Results, result{m, o})
		if file != "" {
			if err := writeJSON(file, all); err != nil {
				return err
			}
		}
		ran++
		left := time.Since(began) / time.Duration(ran) * time.Duration(len(d.Mutants)-i-1)
		fmt.Fprintf(os.Stderr, "%d of %d: %s %s: %s, %.1f s; about %s left\n", i+1, len(d.Mutants), cmp.Or(o.At, m.place()), m.Kind, o, o.Seconds, left.Round(time.Second))
	}
	all.print(os.Stdout)
	return nil
}

// commit returns the commit of a tree, with -dirty after changes. It is empty if the tree is not
// the root of a git work tree: git then has no commit, or that of a clone around the tree.
func commit(ctx context.Context, dir string) string {
	root, err := os.Stat(git(ctx, dir, "rev-parse", "--show-toplevel"))
	if err != nil {
		return ""
	}
	if tree, err := os.Stat(dir); err != nil || !os.SameFile(root, tree) {
		return ""
	}
	return git(ctx, dir, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
}

// git returns the output of a git command, or nothing where it fails.
func git(ctx context.Context, dir string, args ...string) string {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	text, err := cmd.Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func readJSON(file string, v any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	return nil
}

// writeJSON replaces a file as a whole.
func writeJSON(file string, v any) error {
	text, err := json.MarshalIndent(v, "", "\t")
	if err != nil {
		return err
	}
	part := filepath.Clean(file) + ".part"
	if err := os.WriteFile(part, append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(part, file)
}
