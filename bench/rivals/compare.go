package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	gateway "github.com/ruedahq/rueda/bench/host"
	"github.com/ruedahq/rueda/bench/load"
	"github.com/ruedahq/rueda/bench/pattern"
	"github.com/ruedahq/rueda/bench/proc"
	"github.com/ruedahq/rueda/bench/scenario"
)

// contestant is a server that is measured, with the arguments to start it.
type contestant struct {
	name, version string
	argv          []string
	protocol      string
	kind          string                           // of pattern
	start         func(subs int, board string) any // argument of "start"
	login         bool
}

// The contestants of this project.
const (
	ceiling  = "ceiling"
	atOnce   = "rueda-at-once" // each batch is written separately
	ordinary = "rueda"         // pending messages are written together
)

// choose returns the contestants: the bare program, Rueda in two settings, and rivals.
func choose(exe string, p *plan, talk io.Writer) ([]contestant, error) {
	rueda := func(name, kind string, flush time.Duration) contestant {
		return contestant{
			name: name, version: "this tree", argv: []string{exe, roleWord, scenario.RoleServe}, protocol: "rueda", kind: kind, login: true,
			start: func(subs int, board string) any {
				return gateway.Config{Board: board, Conns: subs, PerUser: subs, Flush: flush}
			},
		}
	}
	all := []contestant{
		{
			name: ceiling, version: "this tree", argv: []string{exe, roleWord, scenario.RoleBare}, protocol: "rueda", kind: pattern.Lockstep,
			start: func(int, string) any { return struct{}{} },
		},
		rueda(atOnce, pattern.Lockstep, -1),
		rueda(ordinary, pattern.Window, 0),
	}
	for _, r := range rivals() {
		if what := r.absent(); what != "" {
			if p.only == "" {
				fmt.Fprintf(talk, "%s is left out: there is no %s (%s)\n", r.name, what, r.install)
				continue
			}
			if slices.Contains(strings.Split(p.only, ","), r.name) {
				return nil, fmt.Errorf("%s: there is no %s: %s", r.name, what, r.install)
			}
			continue
		}
		all = append(all, contestant{
			name: r.name, version: r.version(), argv: []string{exe, roleWord, r.name}, protocol: r.protocol, kind: pattern.Lockstep,
			start: func(subs int, board string) any { return config{Subscribers: subs, Board: board} },
		})
	}
	if p.only == "" {
		return all, nil
	}
	var chosen []contestant
	for _, name := range strings.Split(p.only, ",") {
		i := slices.IndexFunc(all, func(c contestant) bool { return c.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no server is called %q", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// figures has the figures of one run. The processor time and the memory are those of all processes
// of a server, including its publisher. Error reports missing messages.
type figures struct {
	scenario.Run
	OfCeil float64 // share of the ceiling's rate in the same round; 0: not measured
	Lost   float64 // share of messages that were not received in time
}

// run measures all contestants one after another in each round, each time in a different order, so
// that a disturbance of the machine does not always affect the same one.
func (p *plan) run(ctx context.Context, exe string, all []contestant, talk io.Writer) (*report, error) {
	r := newReport(p)
	for _, size := range p.sizes {
		for _, batch := range p.batches {
			for round := range p.rounds {
				runs := make([]*figures, len(all))
				for i := range all {
					at := (i + round) % len(all)
					c := &all[at]
					fmt.Fprintf(talk, "%d subscribers, batches of %d, round %d of %d: %s\n", size, batch, round+1, p.rounds, c.name)
					f, err := p.measure(ctx, exe, c, size, batch)
					if ctx.Err() != nil {
						return nil, ctx.Err()
					}
					if err != nil { // keep the figures of the others
						r.fail(c, size, batch, err)
						continue
					}
					runs[at] = f
				}
				r.addRound(all, size, batch, runs)
			}
		}
	}
	return r, nil
}

// measure makes one run. The server and the load program are separate processes.
func (p *plan) measure(ctx context.Context, exe string, c *contestant, size, batch int) (_ *figures, err error) {
	folder, err := os.MkdirTemp("", "rueda-rivals-")
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, os.RemoveAll(folder)) }()
	board := filepath.Join(folder, "board")
	if err := proc.MakeBoard(board); err != nil {
		return nil, err
	}
	server, err := proc.Start(ctx, c.name, c.argv, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, server.Close()) }()
	var begun struct {
		Address, REST string
		Pids          []int
	}
	if err := server.Ask("start", c.start(size, board), &begun); err != nil {
		return nil, err
	}
	client, err := proc.Start(ctx, "load", []string{exe, roleWord, scenario.RoleLoad}, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, client.Close()) }()
	cfg := load.Config{Protocol: c.protocol, Address: begun.Address, Conns: size, Board: board, Frontier: true}
	id := pattern.ID(0).String()
	cfg.Sets = []load.Set{{Topic: subject, Subscribe: `{"action":"subscribe","trades":["` + id + `"]}`, Trades: []string{id}}}
	if c.login {
		token, err := logIn(ctx, begun.REST)
		if err != nil {
			return nil, err
		}
		cfg.Tokens = []string{token}
	}
	if err := client.Ask("open", cfg, nil); err != nil {
		return nil, err
	}
	return p.observe(ctx, c, size, batch, server, client, append(begun.Pids, server.Pid()))
}

// logIn returns a token of the user of all connections of a run.
func logIn(ctx context.Context, rest string) (string, error) {
	body := `{"grant_type":"password","username":"u1","password":"u1"}`
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, rest+"/auth/token", bytes.NewBufferString(body))
	if err != nil {
		return "", err
	}
	q.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return "", err
	}
	defer a.Body.Close()
	var answer struct {
		Data struct {
			Token string `json:"access_token"`
		}
	}
	if err := json.NewDecoder(a.Body).Decode(&answer); err != nil {
		return "", fmt.Errorf("log in: %w", err)
	}
	if answer.Data.Token == "" {
		return "", errors.New("log in: " + a.Status)
	}
	return answer.Data.Token, nil
}

// lastPatience is how long the last messages may take after the last publication.
const lastPatience = 30 * time.Second

// observe publishes, and measures between two marks.
func (p *plan) observe(ctx context.Context, c *contestant, size, batch int, server, client *proc.Child, pids []int) (*figures, error) {
	ahead := p.ahead
	if ahead == 0 {
		ahead = 64
		if size > 2000 {
			ahead = 32
		}
	}
	what := pattern.Pattern{Kind: c.kind, Batch: batch, Window: max(ahead, batch)}
	if p.rate > 0 {
		what.Kind, what.Rate = pattern.Rate, p.rate
	}
	if err := server.Ask("publish", what, nil); err != nil {
		return nil, err
	}
	var from, to load.Mark
	for _, step := range []struct {
		wait time.Duration
		mark *load.Mark
	}{{p.warm, &from}, {p.window, &to}} {
		select {
		case <-time.After(step.wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if err := client.Ask("mark", load.Pids{Pids: pids}, step.mark); err != nil {
			return nil, err
		}
	}
	resident := int64(0)
	for _, pid := range pids {
		now, _, err := proc.Memory(pid)
		if err != nil {
			return nil, err
		}
		resident += now
	}
	var all pattern.Published
	if err := server.Ask("stop", nil, &all); err != nil {
		return nil, err
	}
	var end load.Finished
	if err := client.Ask("finish", load.Finish{Last: all.Last, Seconds: lastPatience.Seconds()}, &end); err != nil {
		return nil, err
	}
	f := between(&from, &to)
	f.Resident = resident
	if end.Complete {
		return f, nil
	}
	if c.protocol == "rueda" {
		return nil, errors.New(end.Faults.First) // neither may lose messages: the measurement is wrong
	}
	if err := client.Ask("mark", load.Pids{}, &to); err != nil {
		return nil, err
	}
	f.Error = end.Faults.First
	f.Lost = 1 - float64(to.Deliveries)/float64(all.Events*uint64(size))
	return f, nil
}

// between returns the figures between two marks.
func between(from, to *load.Mark) *figures {
	var f figures
	f.Seconds, f.Deliveries = to.At-from.At, to.Deliveries-from.Deliveries
	n, servers, self := float64(f.Deliveries), 0.0, to.Self-from.Self
	for i := range to.Servers {
		servers += to.Servers[i] - from.Servers[i]
	}
	f.PerSecond, f.Cores = n/f.Seconds, servers/f.Seconds
	f.Foreign = max(0, (to.Busy-from.Busy-servers-self)/f.Seconds)
	if n > 0 {
		f.CPU, f.LoadCPU = servers/n*1e6, self/n*1e6
		f.Bytes = float64(to.Bytes-from.Bytes) / n
		f.PerRead = n / float64(to.Reads-from.Reads)
	}
	if l := to.Latency; l != nil {
		ms := func(q float64) float64 { return float64(l.At(q)) / 1e6 }
		f.Samples, f.P50, f.P99, f.P999, f.Max = l.Count(), ms(0.5), ms(0.99), ms(0.999), float64(l.Max())/1e6
	}
	return &f
}
