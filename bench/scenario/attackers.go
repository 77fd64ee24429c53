package scenario

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/bench/witness"
	"github.com/ruedahq/rueda/internal/base/frame"
)

const (
	attackTick   = 2 * time.Millisecond
	probeEvery   = 250 * time.Millisecond
	probeLate    = 150 * time.Millisecond // pauses of 0.1 s and more add up
	searchSteps  = 48
	searchSlower = 0.8  // after a refusal or a late probe
	searchFaster = 1.05 // after a step without
)

// attackers are the connections of the hostile user.
type attackers struct {
	address, bearer string
	attack          *attack
	hostile         [][]byte
	control         [][]byte
	rate            float64 // found, a second, of all connections

	all  sync.WaitGroup
	stop func()

	order atomic.Pointer[order]

	mu     sync.Mutex
	total  attackCounts
	faults []error
}

// order is what the connections do at present.
type order struct {
	frames [][]byte // nil: nothing
	rate   float64  // a second, of each
	silent bool     // reads nothing
}

// attackCounts counts what has happened.
type attackCounts struct {
	sent    int64 // frames
	refused int64 // answers rate_limited
	late    int64 // probes
	closed  int64 // connections
}

func newAttackers(address, bearer string, a *attack, epoch string) *attackers {
	s := &attackers{address: address, bearer: bearer, attack: a, hostile: a.hostile, control: a.control}
	if a.resumes {
		s.hostile = nil
		for _, m := range a.hostile {
			s.hostile = append(s.hostile, renamed(m, epoch))
		}
	}
	s.order.Store(&order{})
	return s
}

// renamed returns a frame with the epoch in place of its mark. A frame with zero as its mask has
// its payload in plain text.
func renamed(f []byte, epoch string) []byte {
	_, payload, found := bytes.Cut(f, []byte(`{"action"`))
	if !found {
		return f
	}
	return witness.Text(`{"action"` + string(bytes.ReplaceAll(payload, []byte(epochMark), []byte(epoch))))
}

// start opens the connections, which send nothing yet.
func (s *attackers) start(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	s.stop = func() {
		cancel()
		s.all.Wait()
	}
	for range hostileConns {
		s.all.Go(func() {
			for ctx.Err() == nil {
				if err := s.connect(ctx); err != nil && ctx.Err() == nil {
					s.count(func(c *attackCounts) { c.closed++ })
				}
				_ = wait(ctx, 50*time.Millisecond)
			}
		})
	}
}

// use makes the connections send the control or the attack at the rate that was found.
func (s *attackers) use(control, silent bool) {
	o := &order{frames: s.hostile, rate: s.rate / hostileConns, silent: silent && !control}
	if control {
		o.frames = s.control
	}
	s.order.Store(o)
}

func (s *attackers) count(f func(*attackCounts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.total)
}

func (s *attackers) counts() attackCounts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// fault returns what the gateway has answered that no attack expects.
func (s *attackers) fault() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.faults...)
}

// meanSize returns the mean size of a frame of the attack.
func (s *attackers) meanSize() float64 {
	n := 0
	for _, f := range s.hostile {
		n += len(f)
	}
	return float64(n) / float64(len(s.hostile))
}

// find finds the highest rate that is neither refused nor slowed down. It sends more until that
// happens, and less after it. What was accepted in the second half, when the burst is used up, is
// the rate.
func (s *attackers) find(ctx context.Context, d time.Duration) error {
	rate, accepted, waits := s.attack.most, int64(0), false
	for i := range searchSteps {
		o := &order{frames: s.hostile, rate: rate}
		if waits { // until the gateway has read everything, and forgives
			o = &order{}
		}
		before := s.counts()
		s.order.Store(o)
		if err := wait(ctx, d/searchSteps); err != nil {
			return err
		}
		after := s.counts()
		switch tooMuch := after.refused > before.refused || after.late > before.late; {
		case tooMuch && !waits:
			rate, waits = rate*searchSlower, true
		case tooMuch:
		case waits:
			waits = false
		default:
			rate = min(rate*searchFaster, s.attack.most)
		}
		if i >= searchSteps/2 {
			accepted += after.sent - before.sent - (after.refused - before.refused)
		}
	}
	s.rate = float64(max(accepted, 0)) / (d.Seconds() / 2)
	if s.rate == 0 && s.fault() == nil {
		return errors.New("nothing was accepted")
	}
	return s.fault()
}

// connect makes a connection and sends until it ends.
func (s *attackers) connect(ctx context.Context) error {
	c, err := witness.Dial(ctx, s.address, s.bearer)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var reader sync.WaitGroup
	defer reader.Wait()
	defer func() { _ = c.Close() }()
	defer cancel()
	reader.Go(func() {
		defer cancel()
		s.read(ctx, c)
	})
	for _, m := range s.attack.setup {
		if err := c.Write(witness.Text(m)); err != nil {
			return err
		}
	}
	return s.send(ctx, c)
}

// send sends frames at the present rate, and probes.
func (s *attackers) send(ctx context.Context, c *witness.Conn) error {
	tick := time.NewTicker(attackTick)
	defer tick.Stop()
	last, probed := time.Now(), time.Now()
	credit := 0.0
	next := map[*byte]int{} // places in the rotations, by their first frame: a message may be in parts
	for {
		var now time.Time
		select {
		case <-ctx.Done():
			return errors.New("closed")
		case now = <-tick.C:
		}
		o := s.order.Load()
		credit = min(credit+o.rate*now.Sub(last).Seconds(), 1+o.rate/4)
		last = now
		for ; credit >= 1 && len(o.frames) > 0; credit-- {
			at := &o.frames[0][0]
			if err := c.Write(o.frames[next[at]%len(o.frames)]); err != nil {
				return err
			}
			next[at]++
			s.count(func(n *attackCounts) { n.sent++ })
		}
		if now.Sub(probed) >= probeEvery && !o.silent {
			probed = now
			probe := binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixNano()))
			if err := c.Write(frame.AppendMasked(nil, frame.Ping, 0, probe)); err != nil {
				return err
			}
		}
	}
}

// read reads the answers, unless the user reads nothing at present.
func (s *attackers) read(ctx context.Context, c *witness.Conn) {
	for {
		for s.order.Load().silent {
			if wait(ctx, 10*time.Millisecond) != nil {
				return
			}
		}
		first, start, err := c.Next()
		switch {
		case err != nil:
			return
		case first == frame.Pong && len(start) == 8:
			sent := time.Unix(0, int64(binary.BigEndian.Uint64(start)))
			if time.Since(sent) > probeLate {
				s.count(func(n *attackCounts) { n.late++ })
			}
		case !bytes.HasPrefix(start, []byte(`{"type":"Error"`)):
		case bytes.Contains(start, []byte(`"reason":"rate_limited"`)):
			s.count(func(n *attackCounts) { n.refused++ })
		case bytes.Contains(start, []byte(`"code":400`)), bytes.Contains(start, []byte(`"code":422`)):
			s.mu.Lock()
			if len(s.faults) == 0 {
				s.faults = append(s.faults, errors.New(string(start)))
			}
			s.mu.Unlock()
		}
	}
}
