// Command clients compares the Go client with Alpaca's stream client for Go, each on messages of its
// own protocol with the same content. README.md describes the method.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"text/tabwriter"
)

// contestant is a client with a format and a number of messages in a frame.
type contestant struct {
	Name   string
	Batch  int
	Memory bool // it reads the events from memory, not from a socket
	run    func(ctx context.Context, url string, c *counter, batch int, dial dialFunc) error
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

func contestants() (all []contestant) {
	for _, memory := range []bool{false, true} {
		all = append(all,
			contestant{"alpaca", 1, memory, runAlpaca},
			contestant{"rueda json", 1, memory, runJSON},
			contestant{"rueda msgpack", 1, memory, runMsgpack},
			contestant{"alpaca", 16, memory, runAlpaca},
			contestant{"rueda batch", 16, memory, runBatch},
		)
	}
	return all
}

// dial returns how the client opens its connections.
func (c *contestant) dial(events int) dialFunc {
	if c.Memory {
		return (&memoryDialer{events: events}).dial
	}
	return (&net.Dialer{}).DialContext
}

// task is what a client process gets as its argument.
type task struct {
	Contestant int
	URL        string
	Events     int
	Profile    string // file for a CPU profile; "": none
}

// result is what a client process prints.
type result struct {
	Events             int
	Seconds, CPU       float64 // from the first event to the last
	Mallocs, Allocated float64 // objects and bytes
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 2 {
		switch args[0] {
		case "client":
			return runClient(ctx, args[1], out)
		case "serve":
			return serve(ctx, args[1], out)
		}
	}
	flags := flag.NewFlagSet("clients", flag.ContinueOnError)
	events := flags.Int("events", 2_000_000, "trades and quotes that each client receives")
	rounds := flags.Int("rounds", 5, "runs of each client")
	profiles := flags.String("profiles", "", "directory for a CPU profile of each client in each round; empty: none")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *events < 2 || *rounds < 1 {
		return errors.New("-events must be at least 2, and -rounds at least 1")
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	url, stop, err := startServer(ctx, exe, *events)
	if stop != nil {
		defer stop()
	}
	if err != nil {
		return err
	}
	all := contestants()
	results := make([][]result, len(all))
	for round := range *rounds {
		for i := range all { // each round begins with another one
			i = (i + round) % len(all)
			r, err := measure(ctx, exe, task{i, url, *events, profile(*profiles, i, round)})
			if err != nil {
				return fmt.Errorf("%s: %w", all[i].Name, err)
			}
			results[i] = append(results[i], r)
		}
	}
	return report(out, all, results)
}

// profile returns the name of the file for a profile.
func profile(dir string, client, round int) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, fmt.Sprintf("%02d-%d.pprof", client, round))
}

// measure runs a client in a process of its own.
func measure(ctx context.Context, exe string, t task) (r result, err error) {
	text, err := json.Marshal(t)
	if err != nil {
		return r, err
	}
	cmd := exec.CommandContext(ctx, exe, "client", string(text))
	cmd.Stderr = os.Stderr
	printed, err := cmd.Output()
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(printed, &r); err != nil {
		return r, err
	}
	if r.Events != t.Events {
		return r, fmt.Errorf("%d of %d events", r.Events, t.Events)
	}
	return r, nil
}

// runClient is a client process.
func runClient(ctx context.Context, text string, out io.Writer) error {
	var t task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return err
	}
	one := contestants()[t.Contestant]
	if t.Profile != "" {
		f, err := os.Create(t.Profile)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &counter{most: t.Events, done: cancel}
	if err := one.run(ctx, t.URL, c, one.Batch, one.dial(t.Events)); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(c.result())
}

// report prints the medians.
func report(out io.Writer, all []contestant, results [][]result) error {
	median := func(list []result, value func(r *result) float64) float64 {
		var values []float64
		for i := range list {
			values = append(values, value(&list[i])/float64(list[i].Events))
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, strings.ReplaceAll("| client| read from| messages a frame| events a core second| CPU ns an event| allocations an event| bytes an event|", "|", "\t|"))
	fmt.Fprintln(w, strings.ReplaceAll("|---|---|--:|--:|--:|--:|--:|", "|", "\t|"))
	for i, c := range all {
		cpu := median(results[i], func(r *result) float64 { return r.CPU })
		from := "socket"
		if c.Memory {
			from = "memory"
		}
		fmt.Fprintf(w, "\t| %s\t| %s\t| %d\t| %.0f k\t| %.0f\t| %.2f\t| %.0f\t|\n", c.Name, from, c.Batch, 1/cpu/1000, cpu*1e9,
			median(results[i], func(r *result) float64 { return r.Mallocs }), median(results[i], func(r *result) float64 { return r.Allocated }))
	}
	return w.Flush()
}
