package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ruedahq/rueda/bench/host"
	"github.com/ruedahq/rueda/bench/load"
	"github.com/ruedahq/rueda/bench/pattern"
	"github.com/ruedahq/rueda/bench/proc"
	"github.com/ruedahq/rueda/bench/witness"
)

const (
	hostileConns   = 8  // of the hostile user: the limit of a user
	hostileReaders = 20 // connections of other users
	hostileRuns    = 3  // default pairs of windows
	hostileTopics  = 400
	hostileRate    = 1000 // trades a second, in rotation

	witnessConns = 8                     // of the user whose pings are timed
	witnessEvery = 55 * time.Millisecond // below the limit of messages

	// Bounds: the latency of others compared with the control, and the processor time beyond it.
	hostileRatio = 3
	hostileCore  = 10 // percent of one core

	searchWarmups = 12 // times Options.Warmup are the time in which a rate is found
)

// HostileHelp describes Hostile.
const HostileHelp = `Hostile has one user attack the gateway on 8 connections, each attack at the highest rate that is not
refused. It finds that rate first: it sends faster until messages are refused or the gateway reads its connections
more slowly, and takes what was accepted on average when the burst is used up. Then windows with the attack alternate
with windows of a control, which sends as many frames and bytes that have no effect.

A witness of another user sends pings all the time, and 20 connections of others follow 1,000 trades a second. By
default it takes about half an hour.

Bounds: p99 of the witness's pings, and of the data of the others, at most 3 times that of the control, and at most
10 % of one core beyond the control.`

// Attacked is the result of an attack.
type Attacked struct {
	Unit    string  // of the rate
	Rate    float64 // found, a second, of all connections
	Bytes   float64 // of it, a second
	Refused float64 // share that was refused in the windows

	Pings  [2][]float64 // p99 in ms of each window: of the control, of the attack
	Silent bool         `json:",omitempty"` // nothing is read in the windows
	Closed int64        `json:",omitempty"` // connections that the gateway closed in the windows
}

// Hostile measures how one user who does what costs the gateway most affects others.
func Hostile(ctx context.Context, o Options) (*Report, error) {
	r, err := o.begin("hostile")
	if err != nil {
		return nil, err
	}
	for _, a := range attacks() {
		if !o.wants(a.name) {
			continue
		}
		if err := o.attacked(ctx, r, &a); err != nil {
			return r, fmt.Errorf("%s: %w", a.name, err)
		}
	}
	r.end()
	return r, nil
}

// attacked makes the windows of one attack.
func (o *Options) attacked(ctx context.Context, r *Report, a *attack) (err error) {
	conns := o.sizes(hostileReaders)[0]
	g, err := hostRig(ctx, o, host.Config{Conns: conns, Instruments: a.instruments, Journal: true})
	defer func() { err = errors.Join(err, g.close()) }()
	if err != nil {
		return err
	}
	r.Limits = g.limits
	opened, err := g.open(load.Config{Conns: conns, Sets: followers(), Sample: 3})
	if err != nil {
		return err
	}
	if err := g.publish(pattern.Pattern{Kind: pattern.Rate, Rate: hostileRate, Batch: 1, Spread: hostileTopics, Quotes: true}); err != nil {
		return err
	}
	w, err := o.witnessed(ctx, g)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	bearer, err := token(ctx, http.DefaultClient, g.rest, cmp.Or(a.user, "u900000"))
	if err != nil {
		return err
	}
	s := newAttackers(g.address, bearer, a, opened.Epoch)
	s.start(ctx)
	defer s.stop()
	c := &Case{Name: a.name, Conns: hostileConns, Attacked: &Attacked{Unit: cmp.Or(a.unit, "messages"), Silent: a.silent}}
	r.Cases = append(r.Cases, c)
	if err := s.find(ctx, searchWarmups*o.Warmup); err != nil {
		return err
	}
	c.Attacked.Rate, c.Attacked.Bytes = s.rate, s.rate*s.meanSize()
	if err := o.windows(ctx, g, w, s, c); err != nil {
		return err
	}
	if _, err := g.stop(0); err != nil {
		if b := (*badRun)(nil); !errors.As(err, &b) {
			return err
		}
		c.New[0].Error = err.Error()
	}
	c.judge(r)
	o.talk("%s: %s", c.Name, strings.Join(c.attackedLine(), "  "))
	return s.fault()
}

// windows alternates windows of the control and of the attack.
func (o *Options) windows(ctx context.Context, g *rig, w *proc.Child, s *attackers, c *Case) error {
	x := c.Attacked
	var sent, refused int64
	for i := range 2 * o.Runs {
		kind := (i + 1) / 2 % 2 // control, attack, attack, control, and so on
		s.use(kind == 0, x.Silent)
		if err := wait(ctx, o.Warmup); err != nil {
			return err
		}
		if err := w.Ask("mark", nil, nil); err != nil {
			return err
		}
		before := s.counts()
		run, err := g.window(ctx, 2*o.Window)
		if err != nil {
			return err
		}
		var m witness.Mark
		if err := w.Ask("mark", nil, &m); err != nil {
			return err
		}
		x.Pings[kind] = append(x.Pings[kind], float64(m.Pings.At(0.99))/ms)
		if kind == 0 {
			c.Old = append(c.Old, run)
			continue
		}
		c.New = append(c.New, run)
		after := s.counts()
		x.Closed += after.closed - before.closed
		now, no := after.sent-before.sent, after.refused-before.refused
		if sent, refused = sent+now, refused+no; no > 0 && now > 0 {
			s.rate *= 1 - float64(no)/float64(now) // its price has risen
		}
	}
	if sent == 0 {
		return errors.New("the hostile user sent nothing")
	}
	x.Refused = float64(refused) / float64(sent)
	return nil
}

// judge compares the windows with the bounds.
func (c *Case) judge(r *Report) {
	p := c.pings()
	r.atMost(c.Name+": p99 of a witness's pings, of that with the control", part(p[1], p[0]), hostileRatio, "%.2f")
	r.atMost(c.Name+": p99 of data of others, of that with the control", part(median(c.New, p99), median(c.Old, p99)), hostileRatio, "%.2f")
	r.atMost(c.Name+": % of one core beyond the control", max(0.01, c.beyond()), hostileCore, "%.1f")
}

// beyond returns the processor time of the gateway in attacks beyond that in controls, in percent
// of one core.
func (c *Case) beyond() float64 { return 100 * (median(c.New, cores) - median(c.Old, cores)) }

// pings returns the medians of the p99 of pings in controls and attacks.
func (c *Case) pings() (m [2]float64) {
	for i, list := range c.Attacked.Pings {
		if sorted := slices.Sorted(slices.Values(list)); len(sorted) > 0 {
			m[i] = sorted[len(sorted)/2]
		}
	}
	return m
}

// attackLines returns the table of attacks: a head and a line of each. It is empty without attacks.
func (r *Report) attackLines() (lines [][]string) {
	for _, c := range r.Cases {
		if c.Attacked == nil {
			continue
		}
		if lines == nil {
			lines = append(lines, []string{"attack", "rate of 8 connections", "KiB/s", "p99 of pings, ms", "ratio", "p99 of data, ms", "ratio",
				"gateway, % of a core", "beyond the control", "refused", "closed"})
		}
		lines = append(lines, c.attackedLine())
	}
	return lines
}

func (c *Case) attackedLine() []string {
	x, p := c.Attacked, c.pings()
	data := [2]float64{median(c.Old, p99), median(c.New, p99)}
	f := func(format string, v float64) string { return fmt.Sprintf(format, v) }
	return []string{
		c.Name, f("%.1f ", x.Rate) + x.Unit + "/s", f("%.0f", x.Bytes/1024),
		fmt.Sprintf("%.2f, %.2f", p[0], p[1]), f("%.2f", part(p[1], p[0])),
		fmt.Sprintf("%.2f, %.2f", data[0], data[1]), f("%.2f", part(data[1], data[0])),
		fmt.Sprintf("%.0f, %.0f", 100*median(c.Old, cores), 100*median(c.New, cores)), f("%.1f", c.beyond()),
		f("%.1f %%", 100*x.Refused), fmt.Sprint(x.Closed),
	}
}

// followers returns the set of the connections whose data are timed.
func followers() []load.Set {
	ids := make([]string, hostileTopics)
	for i := range ids {
		ids[i] = pattern.ID(i).String()
	}
	return []load.Set{{Subscribe: listing("subscribe", "trades", ids, ""), Trades: ids}}
}

// witnessed starts the witness.
func (o *Options) witnessed(ctx context.Context, g *rig) (*proc.Child, error) {
	bearer, err := token(ctx, http.DefaultClient, g.rest, "u800000")
	if err != nil {
		return nil, err
	}
	child, err := g.start(ctx, RoleWitness)
	if err != nil {
		return nil, err
	}
	err = child.Ask("open", witness.Config{Address: g.address, Token: bearer, Conns: witnessConns, Every: witnessEvery}, nil)
	if err != nil {
		return nil, errors.Join(err, child.Close())
	}
	return child, nil
}
