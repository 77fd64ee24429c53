//go:build unix

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Results of mutants.
const (
	killed     = "killed"
	timedOut   = "timed out"
	survived   = "survived"
	ranOut     = "time ran out"
	unclear    = "unclear"
	gone       = "gone"
	notCompile = "does not compile"
)

// settings must be equal for results of one file.
type settings struct {
	Commit  string        `json:"commit"`
	RunWith []string      `json:"runWith"` // arguments of go test, in order
	Limit   time.Duration `json:"limit"`   // of a mutant, in nanoseconds
}

// outcome is the result of a mutant.
type outcome struct {
	Status  string  `json:"status"`
	At      string  `json:"at,omitempty"`      // file and line in this tree
	Test    string  `json:"test,omitempty"`    // that failed, or was running
	Package string  `json:"package,omitempty"` // of the test
	RunWith string  `json:"runWith,omitempty"` // arguments of go test
	Seconds float64 `json:"seconds"`
}

func (o outcome) String() string {
	if o.Package == "" {
		return o.Status
	}
	return fmt.Sprintf("%s by %s of %s", o.Status, cmp.Or(o.Test, "the build or a panic"), o.Package)
}

// cleanRun is the result of tests without a mutant.
type cleanRun struct {
	passed bool
	took   time.Duration // of the test program
}

type runner struct {
	tree *tree
	settings
	scratch string              // folder of the overlay
	clean   map[string]cleanRun // by arguments, package and test
}

// prepare finds the place of a mutant and builds its package. It returns the line, the environment
// for commands with the mutant, and a status if they are not possible.
func (r *runner) prepare(ctx context.Context, m mutant) (line int, env []string, status string, err error) {
	base, p := path.Base(m.File), r.tree.packages[r.importPath(m)]
	if p == nil || !slices.Contains(p.GoFiles, base) && !slices.Contains(p.CgoFiles, base) {
		return 0, nil, gone, nil
	}
	line, changed, err := r.tree.locate(m)
	if err != nil || line == 0 {
		return 0, nil, gone, err
	}
	source, list := filepath.Join(r.scratch, base), filepath.Join(r.scratch, "overlay.json")
	if err := os.WriteFile(source, []byte(changed), 0o644); err != nil {
		return 0, nil, "", err
	}
	replace := map[string]string{filepath.Join(r.tree.dir, filepath.FromSlash(m.File)): source}
	if err := writeJSON(list, map[string]any{"Replace": replace}); err != nil {
		return 0, nil, "", err
	}
	env = append(os.Environ(), strings.TrimSpace("GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+list))
	cmd := exec.CommandContext(ctx, "go", "build", "-o", os.DevNull, r.importPath(m))
	cmd.Dir, cmd.Env = r.tree.dir, env
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && ctx.Err() == nil {
		return line, env, notCompile, nil
	}
	return line, env, "", err
}

// importPath returns the package of a mutant.
func (r *runner) importPath(m mutant) string { return path.Join(r.tree.module, path.Dir(m.File)) }

// try tests a mutant.
func (r *runner) try(ctx context.Context, m mutant) (o outcome, err error) {
	began := time.Now()
	line, env, status, err := r.prepare(ctx, m)
	if o.Status = status; err == nil && status == "" {
		o, err = r.test(ctx, r.tree.packages[r.importPath(m)], env)
	}
	if status != gone {
		o.At = fmt.Sprintf("%s:%d", m.File, line)
	}
	o.Seconds = time.Since(began).Seconds()
	return o, err
}

// test runs the tests of a package with a mutant and of its importers until one fails.
func (r *runner) test(ctx context.Context, p *pkg, env []string) (outcome, error) {
	limited, cancel := context.WithTimeout(ctx, r.Limit)
	defer cancel()
	result := outcome{Status: survived}
	for _, args := range r.RunWith {
		for _, paths := range [][]string{{p.ImportPath}, p.importers} {
			paths, err := r.tree.withTests(paths, args)
			if err != nil {
				return result, err
			}
			if len(paths) == 0 {
				continue
			}
			e, err := r.goTest(limited, env, args, paths)
			switch {
			case ctx.Err() != nil:
				return result, ctx.Err()
			case e.failed != "":
				found := outcome{Status: killed, Test: e.test, Package: r.tree.rel(e.failed), RunWith: args}
				if clean, err := r.runClean(ctx, args, e.failed, e.test); err != nil || clean.passed {
					return found, err
				}
				result = found
				result.Status = unclear
			case limited.Err() != nil:
				limit, _ := limited.Deadline()
				return r.late(ctx, args, e, limit)
			case err != nil:
				return result, err
			}
		}
	}
	return result, nil
}

// late returns the result of a mutant whose tests e had not ended at the limit.
func (r *runner) late(ctx context.Context, args string, e *events, limit time.Time) (outcome, error) {
	for path, run := range e.running {
		clean, err := r.runClean(ctx, args, path, "")
		if err != nil {
			return outcome{}, err
		}
		if clean.passed && clean.took <= limit.Sub(run.began) {
			return outcome{Status: timedOut, Test: run.test, Package: r.tree.rel(path), RunWith: args}, nil
		}
	}
	return outcome{Status: ranOut, RunWith: args}, nil
}

// runClean runs a test of a package, or all of them, without a mutant, once for the same arguments.
func (r *runner) runClean(ctx context.Context, args, path, test string) (cleanRun, error) {
	test, _, _ = strings.Cut(test, "/")
	key := strings.Join([]string{args, path, test}, "\x00")
	if c, ok := r.clean[key]; ok {
		return c, nil
	}
	limited, cancel := context.WithTimeout(ctx, r.Limit)
	defer cancel()
	with := args
	if test != "" {
		with += " -run ^" + regexp.QuoteMeta(test) + "$"
	}
	e, err := r.goTest(limited, os.Environ(), with, []string{path})
	if ctx.Err() != nil {
		return cleanRun{}, ctx.Err()
	}
	r.clean[key] = cleanRun{passed: err == nil, took: e.took}
	return r.clean[key], nil
}

// goTest runs tests until they end, a package has failed or ctx ends. It returns an error if the
// tests did not pass.
func (r *runner) goTest(ctx context.Context, env []string, args string, paths []string) (*events, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	flags := []string{"test", "-json", "-vet=off", "-failfast", "-count=1", "-timeout=" + r.Limit.String()}
	cmd := exec.CommandContext(ctx, "go", slices.Concat(flags, strings.Fields(args), paths)...)
	e := &events{ctx: ctx, stop: cancel, running: map[string]running{}, tests: map[string]string{}}
	var stderr bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = r.tree.dir, env, e, &stderr
	// The test programs are in a process group of their own, so that all of them end.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	if ctx.Err() != nil && cmd.Process != nil {
		if killErr := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); killErr != nil && !errors.Is(killErr, syscall.ESRCH) {
			return e, fmt.Errorf("end the tests: %w", killErr)
		}
		return e, ctx.Err()
	}
	if err != nil {
		err = fmt.Errorf("go test %s: %w\n%s", args, err, stderr.Bytes())
	}
	return e, err
}

// running is a package whose test program has not ended.
type running struct {
	began time.Time
	test  string // that ran last
}

// events reads the events of go test -json.
type events struct {
	ctx     context.Context   // of the command; events after its end are ignored
	stop    func()            // ends ctx when a package has failed
	part    []byte            // of a line
	failed  string            // package that failed first
	test    string            // that failed first in it
	tests   map[string]string // that failed first, by package
	running map[string]running
	took    time.Duration // of the last package that ended
}

func (e *events) Write(p []byte) (int, error) {
	e.part = append(e.part, p...)
	for {
		line, rest, ok := bytes.Cut(e.part, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		e.part = rest
		var ev struct {
			Action, Package, Test string
			Elapsed               float64
		}
		if json.Unmarshal(line, &ev) != nil || ev.Package == "" || e.ctx.Err() != nil {
			continue
		}
		switch run := e.running[ev.Package]; {
		case ev.Action == "start":
			e.running[ev.Package] = running{began: time.Now()}
		case ev.Test != "" && (ev.Action == "run" || ev.Action == "cont"):
			e.running[ev.Package] = running{run.began, ev.Test}
		case ev.Test != "" && ev.Action == "fail":
			e.tests[ev.Package] = cmp.Or(e.tests[ev.Package], ev.Test)
		case ev.Test == "" && (ev.Action == "pass" || ev.Action == "fail" || ev.Action == "skip"):
			delete(e.running, ev.Package)
			e.took = time.Duration(ev.Elapsed * float64(time.Second))
			if ev.Action == "fail" {
				e.failed, e.test = ev.Package, e.tests[ev.Package]
				e.stop()
			}
		}
	}
}
