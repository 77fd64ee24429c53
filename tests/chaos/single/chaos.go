package single

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/ruedahq/rueda/tests/chaos/check"
	"github.com/ruedahq/rueda/tests/chaos/market"
	"github.com/ruedahq/rueda/tests/chaos/producer"
	"github.com/ruedahq/rueda/tests/chaos/stream"
)

// Config says what a run does.
type Config struct {
	Program  string
	Folder   string
	Seed     uint64
	Duration time.Duration
	Clients  int
	Logf     func(format string, args ...any)
}

// run is a run of one process.
type run struct {
	Config
	gateway  *Gateway
	market   *market.Market
	producer *producer.Producer
	judge    *check.Judge
	clients  []*check.Client
	report   *check.Report
	r        *rand.Rand
	disk     *Disk // nil if its space cannot be taken
	mayFill  bool
	logged   int // violations
	settled  int
}

// phase is the time between two checks of the whole.
const phase = 20 * time.Second

// Run runs a gateway with faults, and returns what was found.
func Run(ctx context.Context, c Config) (*check.Report, error) { return start(ctx, c, nil, false) }

// start runs a gateway. With full, the disk is full now and then.
func start(ctx context.Context, c Config, disk *Disk, full bool) (*check.Report, error) {
	gateway, err := NewGateway(c.Program, c.Folder)
	if err != nil {
		return nil, err
	}
	x := newRun(c, gateway)
	x.disk, x.mayFill = disk, full
	x.judge.Epochs, x.judge.Missing = full, full
	ctx, stop := context.WithCancel(ctx)
	if err := gateway.Start(ctx); err != nil {
		stop()
		return nil, err
	}
	var group sync.WaitGroup
	group.Go(func() { x.producer.Run(ctx) })
	defer func() {
		stop()
		group.Wait()
		_ = gateway.Signal(syscall.SIGCONT)
		_ = gateway.Stop(syscall.SIGKILL)
	}()
	if err := x.instruments(ctx); err != nil {
		return nil, err
	}
	for _, k := range x.clients {
		group.Go(func() { k.Run(ctx) })
	}
	for end := time.Now().Add(c.Duration); time.Now().Before(end) && ctx.Err() == nil; {
		if err := x.faults(ctx, min(phase, time.Until(end))); err != nil {
			return x.report, err
		}
		if err := x.settle(ctx, time.Until(end) <= 0); err != nil {
			return x.report, err
		}
	}
	for _, text := range x.producer.Refused() {
		x.report.Violation("line", "%s", text)
	}
	for _, text := range x.producer.Lost() {
		if !full {
			x.report.Violation("acknowledged", "%s", text)
		}
	}
	x.report.Count("connections of the producer", x.producer.Connections.Load())
	if err := gateway.Stop(syscall.SIGTERM); err != nil {
		return x.report, err
	}
	Verify(ctx, c.Program, gateway.Journal(), full, x.report)
	return x.report, nil
}

func newRun(c Config, g *Gateway) *run {
	x := &run{Config: c, gateway: g, report: check.NewReport(), r: rand.New(rand.NewPCG(c.Seed, 0))}
	x.market = market.New(c.Seed, time.Now(), 25*time.Millisecond, 6)
	x.producer = producer.New(producer.Config{Market: x.market, Name: "p", Resume: "chaos", Token: secret, Addresses: []string{g.Feed}})
	x.judge = check.NewJudge(x.market, x.report)
	for i := range c.Clients {
		x.clients = append(x.clients, check.NewClient(check.ClientConfig{
			Name: fmt.Sprintf("c%d", i), Addresses: []string{g.Address}, User: User, Password: Password, Judge: x.judge,
			Seed: c.Seed + uint64(i), Slow: i%8 == 7,
		}))
	}
	return x
}

// instruments waits until the gateway lists all instruments.
func (x *run) instruments(ctx context.Context) error {
	token, err := stream.Login(ctx, x.gateway.Address, User, Password)
	if err != nil {
		return err
	}
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); producer.Wait(ctx, 20*time.Millisecond) {
		var data struct{ Instruments []struct{ Instrument string } }
		if err := stream.Get(ctx, x.gateway.Address, token, "/market/instruments", nil, &data); err != nil {
			return err
		}
		if len(data.Instruments) == len(x.market.Instruments) {
			return nil
		}
	}
	return fmt.Errorf("the gateway does not list the instruments: %v", x.producer.Refused())
}

// faults lets faults happen for a time.
func (x *run) faults(ctx context.Context, d time.Duration) error {
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; {
		producer.Wait(ctx, time.Duration(500+x.r.IntN(4_000))*time.Millisecond)
		var err error
		switch n := x.r.IntN(10); {
		case x.mayFill && n < 5:
			err = x.fullDisk(ctx)
		case n < 3:
			err = x.restart(ctx, "kills", syscall.SIGKILL)
		case n < 6:
			err = x.restart(ctx, "terms", syscall.SIGTERM)
		case n < 8:
			err = x.pause(ctx)
		default:
			x.report.Count("drops of the producer", 1)
			x.producer.Drop()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (x *run) restart(ctx context.Context, name string, s syscall.Signal) error {
	x.report.Count(name, 1)
	if err := x.gateway.Stop(s); err != nil {
		return err
	}
	producer.Wait(ctx, time.Duration(x.r.IntN(1_000))*time.Millisecond)
	return x.gateway.Start(ctx)
}

// pause stops the process for up to 6 s.
func (x *run) pause(ctx context.Context) error {
	x.report.Count("pauses", 1)
	if err := x.gateway.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	producer.Wait(ctx, time.Duration(100+x.r.IntN(1+x.r.IntN(6_000)))*time.Millisecond)
	return x.gateway.Signal(syscall.SIGCONT)
}

// settle stops the market, and checks that history and every client have all of it. All of history
// is read the first, each sixth and the last time, and otherwise what is new.
func (x *run) settle(ctx context.Context, last bool) error {
	end := x.producer.StopAt(time.Now())
	for _, k := range x.clients {
		k.Calm(true)
	}
	defer func() {
		for _, k := range x.clients {
			k.Calm(false)
		}
		x.producer.Continue()
	}()
	if !producer.Until(ctx, x.producer.Drained) {
		x.report.Violation("drain", "the producer has no Ack for lines of a minute ago: %s", x.producer.Behind())
		return nil
	}
	producer.Wait(ctx, 1500*time.Millisecond) // the last bars of 1 s
	token, err := stream.Login(ctx, x.gateway.Address, User, Password)
	if err != nil {
		return err
	}
	if last || x.mayFill || x.settled%6 == 0 {
		err = x.judge.History(ctx, x.gateway.Address, token, end)
	}
	if err == nil {
		err = x.judge.State(ctx, x.gateway.Address, token)
	}
	x.settled++
	behind := ""
	if err == nil && !producer.Until(ctx, func() bool {
		if err = x.judge.Newer(ctx, x.gateway.Address, token); err != nil {
			return true
		}
		final := x.judge.Final()
		for _, k := range x.clients {
			if behind = k.Behind(final); behind != "" {
				return false
			}
		}
		return true
	}) {
		x.report.Violation("behind", "%s", behind)
	}
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	x.log()
	return nil
}

// log prints the counts, and the violations since the last time.
func (x *run) log() {
	_, first := x.report.Violations()
	for _, text := range first[min(x.logged, len(first)):] {
		x.Logf("%s", text)
	}
	x.logged = len(first)
	x.Logf("%s", x.report)
}
