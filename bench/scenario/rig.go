package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/ruedahq/rueda/bench/bare"
	"github.com/ruedahq/rueda/bench/host"
	"github.com/ruedahq/rueda/bench/load"
	"github.com/ruedahq/rueda/bench/pattern"
	"github.com/ruedahq/rueda/bench/proc"
	"github.com/ruedahq/rueda/bench/tokens"
	"github.com/ruedahq/rueda/bench/witness"
)

// Roles are the programs of a measurement. Role runs one, whose name is the last argument of its
// process.
const (
	RoleServe = "serve"
	RoleBare  = "bare"
	RoleLoad  = "load"

	RoleTokens = "tokens"

	RoleWitness = "witness"
)

// Role runs the program of that name, such as RoleServe or RoleLoad. It reads requests from in and
// writes answers to out until in ends.
func Role(name string, in io.Reader, out io.Writer) error {
	switch name {
	case RoleServe:
		return host.Run(in, out)
	case RoleBare:
		return bare.Run(in, out)
	case RoleLoad:
		return load.Run(in, out)
	case RoleTokens:
		return tokens.Run(in, out)
	case RoleWitness:
		return witness.Run(in, out)
	}
	return fmt.Errorf("no program of a measurement is called %q", name)
}

// Options are the options of all measurements.
type Options struct {
	Program []string // command that runs a role when its name is appended
	Serve   []string // the same for RoleServe; nil: Program
	Old     []string // Serve of the older and newer side of "compare"
	New     []string
	Env     []string // in addition to this process's

	Runs       int           // pairs; 0: 5, for "slow" 7, for "compare" 9
	MaxRuns    int           // pairs of "compare" while an interval is too wide; below Runs: Runs
	Window     time.Duration // measured time of a run; 0: 5 s
	Warmup     time.Duration // time before it; 0: 2 s
	Conns      int           // 0: the default of the measurement
	Procs      int           // GOMAXPROCS of the gateway; 0: its default
	IOUring    bool          // stream.io_uring of the gateway
	Only       string        // only cases whose name contains this
	PerProcess int           // connections of a process, if there are many; 0: as many as it may open
	Heartbeats time.Duration // interval of pings in "idle"; 0: 20 s, the gateway's default
	SlowFor    time.Duration // how long readers are slow; 0: 12 s
	Profile    string        // folder for a CPU profile of each window of the gateway; "": none

	Postgres string // URL of a database for "auth"; "": none

	TLSByGoroutines bool // stream.tls_by_goroutines of the gateway

	Talk io.Writer // progress messages
}

func (o *Options) fill() {
	if o.Runs <= 0 {
		o.Runs = defaultRuns
	}
	if o.Window <= 0 {
		o.Window = defaultWindow
	}
	if o.Warmup <= 0 {
		o.Warmup = defaultWarmup
	}
	if o.Heartbeats <= 0 {
		o.Heartbeats = defaultHeartbeats
	}
	if o.SlowFor <= 0 {
		o.SlowFor = defaultSlowFor
	}
	if o.Talk == nil {
		o.Talk = io.Discard
	}
}

func (o *Options) talk(format string, args ...any) { fmt.Fprintf(o.Talk, format+"\n", args...) }

// rig is a running server with its load.
type rig struct {
	opts   *Options
	folder string
	board  string
	server *proc.Child
	load   *proc.Child
	isBare bool

	address string
	rest    string // base URL of a gateway
	limits  string
	tokens  []string

	began    time.Time // when the server was started
	busy     float64   // proc.Busy then
	ready    float64   // seconds until a gateway was ready
	readyCPU float64   // its processor seconds then
	foreign  float64   // cores used by other processes until then
}

// startRig starts the processes. The caller closes it, even after an error.
func startRig(ctx context.Context, o *Options, role string) (*rig, error) {
	folder, err := os.MkdirTemp("", "rueda-bench-")
	if err != nil {
		return nil, err
	}
	r := &rig{opts: o, folder: folder, board: filepath.Join(folder, "board"), isBare: role == RoleBare}
	if err := proc.MakeBoard(r.board); err != nil {
		return r, err
	}
	if r.load, err = r.start(ctx, RoleLoad); err != nil {
		return r, err
	}
	if r.busy, err = proc.Busy(); err != nil {
		return r, err
	}
	r.began = time.Now()
	r.server, err = r.start(ctx, role)
	return r, err
}

func (r *rig) start(ctx context.Context, role string) (*proc.Child, error) {
	program := r.opts.Program
	if role == RoleServe && r.opts.Serve != nil {
		program = r.opts.Serve
	}
	argv := append(append([]string(nil), program...), role)
	env := r.opts.Env
	if role != RoleServe {
		// Signals of the runtime would end every wait of a thread after 10 ms.
		env = append(env[:len(env):len(env)], "GODEBUG=asyncpreemptoff=1")
	}
	return proc.Start(ctx, role, argv, env)
}

func (r *rig) close() error {
	if r == nil {
		return nil
	}
	var errs []error
	// Close the load first, so that no client sees the end of the server.
	for _, c := range [...]*proc.Child{r.load, r.server} {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(append(errs, os.RemoveAll(r.folder))...)
}

// bareRig starts the bare program.
func bareRig(ctx context.Context, o *Options, cfg bare.Config) (*rig, error) {
	r, err := startRig(ctx, o, RoleBare)
	if err != nil {
		return r, err
	}
	var s bare.Started
	if err := r.server.Ask("start", cfg, &s); err != nil {
		return r, err
	}
	r.address, r.limits = s.Address, s.Limits
	return r, nil
}

// hostRig starts a gateway and logs its users in.
func hostRig(ctx context.Context, o *Options, cfg host.Config) (*rig, error) {
	r, err := startRig(ctx, o, RoleServe)
	if err != nil {
		return r, err
	}
	cfg.Board, cfg.Folder = r.board, cmp.Or(cfg.Folder, r.journalFolder())
	if cfg.Procs == 0 {
		cfg.Procs = o.Procs
	}
	cfg.IOUring, cfg.TLSByGoroutines = o.IOUring, o.TLSByGoroutines
	if cfg.PerUser == 0 {
		cfg.PerUser = defaultPerUser
	}
	var s host.Started
	if err := errors.Join(r.server.Ask("start", cfg, &s), s.Check()); err != nil {
		return r, err
	}
	if err := r.isReady(); err != nil {
		return r, err
	}
	r.address, r.rest, r.limits = s.Address, s.REST, s.Limits
	users := max(1, (cfg.Conns+cfg.PerUser-1)/cfg.PerUser)
	r.tokens, err = logIn(ctx, s.REST, cfg.Certificate, users)
	return r, err
}

// isReady records what the start of the server took.
func (r *rig) isReady() (err error) {
	r.ready = time.Since(r.began).Seconds()
	if r.readyCPU, err = r.cpu(); err != nil {
		return err
	}
	loads, err := proc.CPU(r.load.Pid())
	if err != nil {
		return err
	}
	busy, err := proc.Busy()
	r.foreign = max(0, (busy-r.busy-r.readyCPU-loads)/r.ready)
	return err
}

// defaultPerUser is the default limit of connections of a user.
const defaultPerUser = 8

// opening is the argument of "open".
type opening struct {
	load.Config
	Pids []int
}

// withAddress adds the addresses of this rig to a load's configuration.
func (r *rig) withAddress(cfg load.Config) opening {
	cfg.Address, cfg.Board, cfg.Tokens = r.address, r.board, r.tokens
	return opening{cfg, []int{r.server.Pid()}}
}

// open opens the connections.
func (r *rig) open(cfg load.Config) (*load.Opened, error) {
	var o load.Opened
	err := r.load.Ask("open", r.withAddress(cfg), &o)
	return &o, err
}

// publishOnce publishes a batch and waits until all connections have it.
func (r *rig) publishOnce(batch int) (*pattern.Published, error) {
	if err := r.publish(pattern.Pattern{Kind: pattern.Once, Batch: batch}); err != nil {
		return nil, err
	}
	return r.stop(0)
}

// cpu returns the server's processor time.
func (r *rig) cpu() (float64, error) { return proc.CPU(r.server.Pid()) }

func (r *rig) publish(p pattern.Pattern) error { return r.server.Ask("publish", p, nil) }

func (r *rig) mark() (*load.Mark, error) {
	var m load.Mark
	err := r.load.Ask("mark", load.Pids{Pids: []int{r.server.Pid()}}, &m)
	return &m, err
}

// window waits for the length of a window and returns its result.
func (r *rig) window(ctx context.Context, d time.Duration) (*Run, error) {
	var before, after host.Stats
	if !r.isBare {
		if err := errors.Join(r.profile(true), r.server.Ask("stats", nil, &before)); err != nil {
			return nil, err
		}
	}
	a, err := r.mark()
	if err != nil {
		return nil, err
	}
	if err := wait(ctx, d); err != nil {
		return nil, err
	}
	b, err := r.mark()
	if err != nil {
		return nil, err
	}
	run := between(a, b)
	if r.isBare {
		return run, nil
	}
	if err := errors.Join(r.server.Ask("stats", nil, &after), r.profile(false)); err != nil {
		return nil, err
	}
	run.Resident = after.Resident
	if n := after.Gateway.Writes - before.Gateway.Writes; n > 0 {
		run.PerWrite = float64(run.Deliveries) / float64(n)
	}
	if run.Deliveries > 0 {
		run.Allocs = float64(after.Mallocs-before.Mallocs) / float64(run.Deliveries)
	}
	return run, nil
}

// profile begins or ends the profile of a window, if profiles are enabled.
func (r *rig) profile(begin bool) error {
	if r.opts.Profile == "" {
		return nil
	}
	name := ""
	if begin {
		name = filepath.Join(r.opts.Profile, fmt.Sprintf("cpu-%d.pprof", r.server.Pid()))
		r.opts.talk("profile: %s", name)
	}
	return r.server.Ask("profile", name, nil)
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// patience is the maximum time until all connections have the last messages.
const patience = 30.0

// stop ends publishing and checks that every connection has everything. It skips the first spare
// connections.
func (r *rig) stop(spare int) (*pattern.Published, error) {
	return r.stopWith(load.Finish{Spare: spare})
}

// stopFrom is stop for connections that resume after base.
func (r *rig) stopFrom(base map[string]uint32) (*pattern.Published, error) {
	return r.stopWith(load.Finish{Base: base})
}

func (r *rig) stopWith(f load.Finish) (*pattern.Published, error) {
	var p pattern.Published
	if err := r.server.Ask("stop", nil, &p); err != nil {
		return nil, err
	}
	f.Last, f.Seconds = p.Last, patience
	var end load.Finished
	if err := r.load.Ask("finish", f, &end); err != nil {
		return nil, err
	}
	if !end.Complete {
		return &p, &badRun{end.Faults}
	}
	return &p, nil
}

// badRun reports a run with lost, duplicated, reordered or missing messages.
type badRun struct{ faults load.Faults }

func (b *badRun) Error() string {
	f := b.faults
	return fmt.Sprintf("messages went wrong: %d lost, %d doubled, %d without sense, %d connections closed, %d not complete; the first: %s",
		f.Lost, f.Doubled, f.Unknown, f.Closed, f.Late, f.First)
}
