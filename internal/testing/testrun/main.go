// Command testrun runs go test for the Makefile. It prints the result of each package, the whole
// output of each test that failed, the twenty slowest tests, and the time that the run took.
//
//	go run ./internal/testing/testrun [-tier tier] [-services] [-C folder] -- arguments of go test
//
// With -tier it runs the tests of a tier, in the packages that have any. With -services it starts
// one PostgreSQL for all packages of the run. Where PostgreSQL is not installed, the tests that
// need it say so. -C is the folder to run go test in.
//
// A package that passes and runs no test fails the run, unless it has none to run. With -run in the
// arguments and no pattern such as ./..., each package must have a test that -run matches.
//
// # Concurrency
//
// The program has no goroutines of its own; the server's process is watched by package pgtest.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/testing/pgtest"
)

func main() {
	tierName := flag.String("tier", "", "run the tests of a `tier` (quick, race or e2e), in the packages that have any")
	services := flag.Bool("services", false, "start one PostgreSQL for all packages")
	folder := flag.String("C", "", "`folder` to run go test in")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go run ./internal/testing/testrun [flags] -- arguments of go test, such as -count=1 ./wire")
		flag.PrintDefaults()
	}
	flag.Parse()
	args := flag.Args()
	if *tierName != "" {
		r, ok := tiers()[*tierName]
		if !ok {
			fmt.Fprintf(os.Stderr, "-tier %s is not quick, race or e2e\n", *tierName)
			os.Exit(2)
		}
		packages, err := r.packages(filepath.Join(".", *folder))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if len(packages) == 0 { // go test would run those of the folder
			fmt.Fprintf(os.Stderr, "no package has tests of tier %s\n", *tierName)
			os.Exit(1)
		}
		args = slices.Concat(args, r.args, packages)
	}
	status, err := run(options{*folder, *services, *tierName == "" && named(args)}, args, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = max(status, 1)
	}
	os.Exit(status)
}

// named reports whether the arguments of go test choose tests of packages that they name.
func named(args []string) bool {
	chooses := func(arg string) bool {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		return strings.HasPrefix(arg, "-") && name == "run"
	}
	pattern := func(arg string) bool { return !strings.HasPrefix(arg, "-") && strings.HasSuffix(arg, "...") }
	return slices.ContainsFunc(args, chooses) && !slices.ContainsFunc(args, pattern)
}

// options are those of a run, besides the arguments of go test.
type options struct {
	folder   string
	services bool // start PostgreSQL
	named    bool // a package in which -run matches no test fails
}

// run runs go test and returns its exit status, or 1 if a package passed that should not.
func run(o options, args []string, out io.Writer) (status int, err error) {
	signal.Notify(make(chan os.Signal, 1), os.Interrupt) // it ends go test, and then this program
	env := os.Environ()
	if o.services {
		server, launchErr := pgtest.Launch()
		switch {
		case launchErr == nil:
			defer func() { err = errors.Join(err, server.Close()) }()
			env = append(env, fmt.Sprintf("%s=%d", pgtest.Shared, server.Port()))
		case !errors.Is(launchErr, pgtest.ErrNone):
			return 1, fmt.Errorf("start PostgreSQL: %w", launchErr)
		}
	}
	cmd := exec.Command("go", slices.Concat([]string{"test", "-json"}, args)...)
	start := time.Now()
	cmd.Dir = o.folder
	cmd.Env, cmd.Stderr = env, os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return 1, err
	}
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	r := newReport(out, o.named)
	err = r.read(events)
	if waitErr := cmd.Wait(); waitErr != nil {
		var exit *exec.ExitError
		if !errors.As(waitErr, &exit) {
			return 1, errors.Join(err, waitErr)
		}
		status = max(exit.ExitCode(), 1)
	}
	if len(r.failed) > 0 {
		status = max(status, 1)
	}
	r.summary()
	processor := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	fmt.Fprintf(out, "%.0f s, and %.0f s of processor time including compilation\n", time.Since(start).Seconds(), processor.Seconds())
	return status, err
}
