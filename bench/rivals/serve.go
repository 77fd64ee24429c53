package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/ruedahq/rueda/bench/pattern"
	"github.com/ruedahq/rueda/bench/proc"
)

// config is the argument of "start".
type config struct {
	Subscribers int
	Board       string // file to which the load program writes its progress; its folder is removed after the run
}

// started is its answer.
type started struct {
	Address string
	Pids    []int // of the processes besides this one
}

// host is a rival with its publisher, in a separate process.
type host struct {
	rival *rival
	cfg   config
	board *proc.Board
	relay *relay
	now   *publisher
	begin time.Time
	end   context.CancelFunc
	done  chan error
}

// serve runs the process of a rival. It answers requests until in ends.
func serve(name string, in io.Reader, out io.Writer) error {
	r, err := rivalNamed(name)
	if err != nil {
		return err
	}
	if _, err := proc.RaiseFiles(); err != nil {
		return err
	}
	h := host{rival: r}
	err = proc.Serve(in, out, map[string]proc.Handler{
		"start":   proc.Handle(h.start),
		"publish": proc.Handle(h.publish),
		"stop":    proc.Handle(func(struct{}) (*pattern.Published, error) { return h.stop() }),
	})
	return errors.Join(err, h.close())
}

func (h *host) start(cfg config) (*started, error) {
	if h.relay != nil {
		return nil, errors.New("started already")
	}
	if cfg.Subscribers < 1 {
		return nil, fmt.Errorf("%d subscribers", cfg.Subscribers)
	}
	board, err := proc.OpenBoard(cfg.Board)
	if err != nil {
		return nil, err
	}
	relay, err := h.rival.start(filepath.Dir(cfg.Board))
	if err != nil {
		return nil, err
	}
	h.cfg, h.board, h.relay = cfg, board, relay
	return &started{Address: relay.address, Pids: relay.pids}, nil
}

func (h *host) publish(p pattern.Pattern) (struct{}, error) {
	if h.relay == nil || h.now != nil {
		return struct{}{}, errors.New("not started, or has published already")
	}
	switch p.Kind {
	case pattern.Lockstep, pattern.Window, pattern.Rate:
	default:
		return struct{}{}, fmt.Errorf("pattern %q is none for rivals", p.Kind)
	}
	if err := h.awaitMembers(); err != nil {
		return struct{}{}, err
	}
	ctx, end := context.WithCancel(context.Background())
	h.now = &publisher{relay: h.relay, board: h.board, pattern: p, subscribers: h.cfg.Subscribers, patience: usualPatience}
	h.begin, h.end, h.done = time.Now(), end, make(chan error, 1)
	go func() { h.done <- h.now.run(ctx) }()
	return struct{}{}, nil
}

// awaitMembers waits until a relay has added all subscribers. Their upgrades are answered before
// that.
func (h *host) awaitMembers() error {
	if h.relay.joined == nil {
		return nil
	}
	for late := time.Now().Add(5 * time.Second); h.relay.joined() < h.cfg.Subscribers; proc.Nap(1e6) {
		if time.Now().After(late) {
			return fmt.Errorf("%d of %d subscribers have joined", h.relay.joined(), h.cfg.Subscribers)
		}
	}
	return nil
}

// stopPatience is how long the last batch may take.
const stopPatience = 20 * time.Second

func (h *host) stop() (*pattern.Published, error) {
	if h.now == nil {
		return nil, errors.New("nothing is published")
	}
	h.now.stop.Store(true)
	late := time.AfterFunc(stopPatience, h.end)
	err := <-h.done
	h.done <- nil // for close
	if !late.Stop() {
		err = cmp.Or(err, fmt.Errorf("a batch took more than %v", stopPatience))
	}
	n := h.now.last
	return &pattern.Published{
		Last: map[string]uint32{pattern.ID(0).String(): uint32(n)}, Events: n,
		Batches: n / uint64(max(1, h.now.pattern.Batch)), Seconds: time.Since(h.begin).Seconds(),
	}, err
}

func (h *host) close() error {
	var err error
	if h.now != nil {
		h.end()
		err = <-h.done
	}
	if h.relay != nil {
		err = cmp.Or(err, h.relay.close())
	}
	return err
}
