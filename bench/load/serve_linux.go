package load

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/ruedahq/rueda/bench/proc"
)

// openPatience is the maximum time without a new ready connection.
const openPatience = 20 * time.Second

// Run runs a load program: it answers requests until in ends.
func Run(in io.Reader, out io.Writer) error {
	if _, err := proc.RaiseFiles(); err != nil {
		return err
	}
	runtime.GOMAXPROCS(max(2, runtime.NumCPU())) // the loop occupies one processor
	l, err := newLoop()
	if err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.run()
	}()
	err = proc.Serve(in, out, l.handlers())
	l.post(func() { l.quit = true })
	<-done
	if l.secure != nil {
		l.secure.close()
	}
	return err
}

func (l *loop) handlers() Handlers {
	return Handlers{
		"open":     proc.Handle(l.open),
		"mark":     proc.Handle(l.mark),
		"finish":   proc.Handle(l.awaitLast),
		"throttle": proc.Handle(l.throttle),
		"memory": proc.Handle(func(struct{}) (int64, error) {
			now, _, err := proc.Memory(os.Getpid())
			return now, err
		}),
	}
}

// do makes the loop call f and waits for it.
func (l *loop) do(f func() error) error {
	answer := make(chan error, 1)
	l.post(func() { answer <- f() })
	return <-answer
}

func (cfg *Config) fill() error {
	cfg.Sources = cmp.Or(cfg.Sources, 16)
	cfg.Opening = cmp.Or(cfg.Opening, 128)
	cfg.ReceiveBuffer = cmp.Or(cfg.ReceiveBuffer, 128<<10)
	cfg.Sample = cmp.Or(cfg.Sample, 17)
	if len(cfg.Sets) == 0 {
		cfg.Sets = []Set{{}}
	}
	if cfg.Conns < 1 || cfg.Sources > 250 {
		return fmt.Errorf("%d connections from %d addresses", cfg.Conns, cfg.Sources)
	}
	return nil
}

// openArgs are the arguments of the request "open": the connections to make, and the processes
// whose processor time is measured meanwhile.
type openArgs struct {
	Config
	Pids []int
}

func (l *loop) open(args openArgs) (*Opened, error) {
	cfg := &args.Config
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	proto, err := protocols(cfg.Protocol)
	if err != nil {
		return nil, err
	}
	var board *proc.Board
	if cfg.Board != "" {
		if board, err = proc.OpenBoard(cfg.Board); err != nil {
			return nil, err
		}
	}
	if cfg.Certificate != "" {
		return l.openTLS(cfg, &proto, args.Pids)
	}
	ready := make(chan error, 1)
	var before, after times
	err = l.do(func() (err error) {
		if l.cfg != nil {
			return errors.New("connections are open already")
		}
		if err := l.setServer(cfg.Address); err != nil {
			return err
		}
		if before, err = readTimes(args.Pids); err != nil {
			return err
		}
		l.check = newChecker(cfg.Sample, cfg.Frontier, func() int64 { return time.Now().UnixNano() })
		l.cfg, l.proto, l.board = cfg, &proto, board
		l.conns = make([]conn, cfg.Conns)
		l.slowly = make([]slowly, cfg.Slow)
		l.slowEnds = make(map[string]int)
		l.check.aged = l.aged
		l.opened = func(err error) {
			if err == nil {
				after, err = readTimes(args.Pids)
			}
			ready <- err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := l.awaitReady(ready); err != nil {
		return nil, err
	}
	o := &Opened{Conns: cfg.Conns, Epoch: l.epoch, Seconds: after.at - before.at, Self: after.self - before.self, Busy: after.busy - before.busy}
	for i := range after.servers {
		o.Servers = append(o.Servers, after.servers[i]-before.servers[i])
	}
	return o, nil
}

// awaitReady waits while connections become ready.
func (l *loop) awaitReady(ready <-chan error) error {
	last := -1
	for {
		select {
		case err := <-ready:
			return err
		case <-time.After(openPatience):
		}
		var now int
		var phases [phaseReady + 1]int
		_ = l.do(func() error {
			now = l.ready
			for i := range l.conns[:l.next] {
				phases[l.conns[i].phase]++
			}
			return nil
		})
		if now == last || now == 0 {
			return fmt.Errorf("%d of %d connections are ready after %v without another; by phase %v", now, len(l.conns), openPatience, phases)
		}
		last = now
	}
}

// times are processor times and when they were read.
type times struct {
	at, self, busy float64
	servers        []float64
}

func readTimes(pids []int) (t times, err error) {
	for _, pid := range pids {
		s, err := proc.CPU(pid)
		if err != nil {
			return t, err
		}
		t.servers = append(t.servers, s)
	}
	if t.self, err = proc.CPU(os.Getpid()); err != nil {
		return t, err
	}
	if t.busy, err = proc.Busy(); err != nil {
		return t, err
	}
	t.at = float64(time.Now().UnixNano()) / 1e9
	return t, nil
}

func (l *loop) mark(args Pids) (m *Mark, err error) {
	err = l.do(func() error {
		t, err := readTimes(args.Pids)
		if err != nil || l.cfg == nil {
			return errors.Join(err, l.isOpen())
		}
		if l.queueFault != nil {
			return l.queueFault
		}
		l.markSlow(t.at)
		k := l.check
		latency, slow := k.latency, l.slowAge
		k.latency, l.slowAge = Latency{}, Latency{}
		m = &Mark{
			At: t.at, Deliveries: k.deliveries, Bytes: l.read, Reads: l.reads, Conns: l.ready, Faults: k.faults,
			Pings: l.pings, Warnings: l.warnings,
			Servers: t.servers, Self: t.self, Busy: t.busy, Latency: &latency, SlowAge: &slow, SlowEnds: maps.Clone(l.slowEnds),
		}
		if s := l.secure; s != nil {
			m.Pings, m.Deliveries, m.Conns = s.pings.Load(), s.messages.Load(), int(s.open.Load())
			if err := s.failed(); err != nil {
				m.Faults = Faults{Closed: 1, First: err.Error()}
			}
		}
		return nil
	})
	return m, err
}

func (l *loop) isOpen() error {
	if l.cfg == nil {
		return errors.New("no connections are open")
	}
	return nil
}

// lookFinished answers a pending "finish" when everything has arrived, or after its time.
func (l *loop) lookFinished() {
	if l.finish == nil {
		return
	}
	all := l.finished()
	if all || time.Now().After(l.finishBy) {
		f := l.finish
		l.finish = nil
		f(all)
	}
}

func (l *loop) awaitLast(args Finish) (*Finished, error) {
	answer := make(chan *Finished, 1)
	err := l.do(func() error {
		if err := l.isOpen(); err != nil {
			return err
		}
		l.finishBy = time.Now().Add(time.Duration(args.Seconds * float64(time.Second)))
		at := args.Spare // connections before it have everything
		l.finished = func() bool {
			for ; at < len(l.conns); at++ {
				if l.missing(&l.conns[at], &args, false) != "" {
					return false
				}
			}
			return true
		}
		l.finish = func(all bool) {
			if !all {
				for i := args.Spare; i < len(l.conns); i++ {
					if text := l.missing(&l.conns[i], &args, true); text != "" {
						l.check.fault(&l.check.faults.Late, 1, "connection %d: %s", i, text)
					}
				}
			}
			answer <- &Finished{Complete: all && !l.check.faults.Any(), Faults: l.check.faults}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return <-answer, nil
}

// missing describes the trades that a connection lacks.
func (l *loop) missing(c *conn, args *Finish, report bool) string {
	if c.slow && c.phase == phaseClosed {
		return "" // it may be cut off
	}
	set := l.cfg.set(int(c.number)).Trades
	lacks := func(id string, last uint32) string {
		base := args.Base[id]
		var s seen
		for at := range min(len(l.check.instruments), len(c.seen)/channels) { // once for each delay
			if l.check.instruments[at].id == id && c.seen[at*channels].last > 0 {
				s = c.seen[at*channels]
			}
		}
		switch {
		case last == base && s.last == 0: // nothing was published
		case s.last != last || s.first != base+1:
			if !report {
				return "something"
			}
			return fmt.Sprintf("%s: has N %d to %d of %d to %d", id, s.first, s.last, base+1, last)
		}
		return ""
	}
	for _, id := range set {
		if strings.HasPrefix(id, "*") {
			for id, last := range args.Last {
				if text := lacks(id, last); text != "" {
					return text
				}
			}
			continue
		}
		if text := lacks(id, args.Last[id]); text != "" {
			return text
		}
	}
	return ""
}
