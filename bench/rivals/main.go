// Command rivals measures other servers on the same work as Rueda. README.md describes the method.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ruedahq/rueda/bench/scenario"
)

func main() {
	if done, err := role(os.Args[1:], os.Stdin, os.Stdout); done {
		exit(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	exit(err)
}

func exit(err error) {
	switch {
	case err == nil:
		os.Exit(0)
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	}
	fmt.Fprintf(os.Stderr, "rivals: %v\n", err)
	os.Exit(1)
}

// roleWord is the first argument of the processes of a measurement.
const roleWord = "role"

// role runs such a process if the arguments request one. It uses JSON on standard input and output.
func role(args []string, in io.Reader, out io.Writer) (done bool, err error) {
	if len(args) != 2 || args[0] != roleWord {
		return false, nil
	}
	switch name := args[1]; name {
	case scenario.RoleLoad, scenario.RoleBare, scenario.RoleServe:
		return true, scenario.Role(name, in, out)
	default:
		return true, serve(name, in, out)
	}
}

// plan defines what to measure.
type plan struct {
	only    string
	sizes   []int
	batches []int
	rounds  int
	warm    time.Duration
	window  time.Duration
	ahead   int     // messages in flight to a subscriber, for a server that queues; 0: by size
	rate    float64 // messages per second; 0: as many as possible
}

func run(ctx context.Context, args []string, out, talk io.Writer) error {
	p, err := parse(args, talk)
	if err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	all, err := choose(exe, p, talk)
	if err != nil {
		return err
	}
	report, err := p.run(ctx, exe, all, talk)
	if err != nil {
		return err
	}
	if err := report.print(out); err != nil {
		return err
	}
	if len(report.failed) > 0 {
		return fmt.Errorf("%d runs failed", len(report.failed))
	}
	return nil
}

func parse(args []string, talk io.Writer) (*plan, error) {
	var p plan
	var sizes, batches string
	f := flag.NewFlagSet("rivals", flag.ContinueOnError)
	f.SetOutput(talk)
	f.StringVar(&p.only, "only", "", "`servers` to measure, with commas; all that are installed by default")
	f.StringVar(&sizes, "subscribers", "1000,10000", "`numbers` of subscribers")
	f.StringVar(&batches, "batch", "1,16", "`numbers` of messages published together")
	f.IntVar(&p.rounds, "n", 3, "rounds; medians are told")
	f.DurationVar(&p.warm, "warm", 1500*time.Millisecond, "time before measuring")
	f.DurationVar(&p.window, "time", 5*time.Second, "time of measuring")
	f.IntVar(&p.ahead, "ahead", 0, "messages that may be on their way to a subscriber where a server queues without bound; 0: 64, and 32 above 2,000 subscribers")
	f.Float64Var(&p.rate, "rate", 0, "messages a second; 0: as many as go")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	var err error
	if p.sizes, err = numbers(sizes); err == nil {
		p.batches, err = numbers(batches)
	}
	if err == nil && (p.rounds < 1 || p.window <= 0 || p.warm < 0 || p.rate < 0 || p.ahead < 0) {
		err = errors.New("rounds and times are above 0")
	}
	return &p, err
}

func numbers(text string) ([]int, error) {
	var all []int
	for _, word := range strings.Split(text, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a number above 0", word)
		}
		all = append(all, n)
	}
	return all, nil
}
