package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/internal/bench/host"
	"github.com/ruedahq/rueda/internal/bench/load"
	"github.com/ruedahq/rueda/internal/bench/pairs"
	"github.com/ruedahq/rueda/internal/bench/pattern"
)

const (
	hostileConns    = 8  // of the hostile user: the limit of a user
	hostilePerSec   = 19 // messages of each; the limit is 20
	hostileReaders  = 20 // connections of other users
	hostileRatio    = 1.5
	hostileRounds   = 5   // windows of each kind in a run, in turn: a busy moment of the machine spoils one
	hostileNames    = 600 // identifiers in a message
	hostilePatterns = 64
)

// Workloads of Hostile.
const (
	hostileUnknown  = "unknown identifiers"
	hostileWildcard = "patterns"
)

// HostileHelp describes Hostile.
const HostileHelp = `Hostile has one user send on 8 connections, 19 messages a second each, what costs the gateway much: 600
unknown identifiers a message ("unknown identifiers", by a user with quotes alone), or 64 patterns over 10,000
instruments that come and go ("patterns"), while 20 others follow 1,000 trades a second. What is compared are
windows with as many bytes that cost little, and windows with the hostile messages, in turn; of each kind the one
with the middle p99 counts. A connection that the gateway closes connects again. By default it takes about 4
minutes.

Bound: p99 of the others at most 1.5 times that with harmless messages.`

// An attack is a set of expensive messages of a hostile user, and as many bytes of cheap ones.
type attack struct {
	name        string
	user        string
	instruments int // of the gateway
	harmless    []string
	hostile     []string // sent in rotation
}

func attacks() []attack {
	names, patterns := make([]string, hostileNames), make([]string, hostilePatterns)
	for i := range names {
		names[i] = fmt.Sprintf(`"S%dXABCDEFGHIJKLMNOPQRS|BENCH|CI"`, i)
	}
	shapes := []string{`"*|*|*"`, `"*|%[1]s|*"`, `"*|*|%[2]s"`, `"*|%[1]s|%[2]s"`}
	id := pattern.ID(0)
	for i := range patterns {
		if patterns[i] = fmt.Sprintf(`"S%dXABCDEFGHIJKLMNOPQRS|*|*"`, i); i < len(shapes) {
			patterns[i] = strings.ReplaceAll(strings.ReplaceAll(shapes[i], "%[1]s", id.Market), "%[2]s", id.Term)
		}
	}
	message := func(action string, list []string) string {
		return fmt.Sprintf(`{"action":%q,"quotes":[%s]}`, action, strings.Join(list, ","))
	}
	return []attack{
		{hostileUnknown, "uq0000", 67, []string{message("unsubscribe", names)}, []string{message("subscribe", names)}},
		{hostileWildcard, "u900000", 10_000, []string{message("unsubscribe", patterns)},
			[]string{message("subscribe", patterns), message("unsubscribe", patterns)}},
	}
}

// Hostile measures how the messages of one user affect the latency of others: first bytes that cost
// the gateway little, then as many that cost it much.
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
			return r, err
		}
	}
	r.end()
	return r, nil
}

func (o *Options) attacked(ctx context.Context, r *Report, a *attack) error {
	conns := o.sizes(hostileReaders)[0]
	c := &Case{Name: a.name, Conns: conns}
	r.Cases = append(r.Cases, c)
	var ratio []float64
	for i := range o.Runs {
		harmless, hostile, err := o.attackedOnce(ctx, r, a, conns)
		if err != nil {
			return err
		}
		c.Rueda = append(c.Rueda, harmless, hostile)
		if harmless.Samples > 0 && hostile.Samples > 0 {
			ratio = append(ratio, part(hostile.P99, harmless.P99))
		}
		o.talk("%s %d: p99 of the others %.3f ms with harmless messages, %.3f with hostile ones", a.name, i+1, harmless.P99, hostile.P99)
	}
	r.atMost(a.name+": p99 of the others, of that with harmless messages", pairs.Median(ratio), hostileRatio, "%.3f")
	return nil
}

// middleRun returns the window with the middle p99.
func middleRun(runs []*Run) *Run {
	return slices.SortedFunc(slices.Values(runs), func(a, b *Run) int { return cmp.Compare(a.P99, b.P99) })[len(runs)/2]
}

// attackedOnce makes one run: short windows with harmless and with hostile messages in turn. It
// returns the middle one of each kind.
func (o *Options) attackedOnce(ctx context.Context, r *Report, a *attack, conns int) (harmless, hostile *Run, err error) {
	g, err := hostRig(ctx, o, host.Config{Conns: conns, Instruments: a.instruments})
	defer func() { err = errors.Join(err, g.close()) }()
	if err != nil {
		return nil, nil, err
	}
	r.Limits = g.limits
	if _, err := g.open(load.Config{Conns: conns, Sets: oneTopic(), Sample: 3}); err != nil {
		return nil, nil, err
	}
	if err := g.publish(pattern.Pattern{Kind: pattern.Rate, Rate: 1000, Batch: 1}); err != nil {
		return nil, nil, err
	}
	bearer, err := token(ctx, http.DefaultClient, g.rest, a.user)
	if err != nil {
		return nil, nil, err
	}
	during := func(messages []string) (run *Run, err error) {
		ctx, stop := context.WithCancel(ctx)
		var all sync.WaitGroup
		defer all.Wait()
		defer stop()
		var sent atomic.Int64
		for range hostileConns {
			all.Go(func() { sendAgain(ctx, g, bearer, messages, &sent) })
		}
		if err := wait(ctx, o.Warmup/hostileRounds); err != nil {
			return nil, err
		}
		before := sent.Load()
		if run, err = g.window(ctx, o.Window/hostileRounds); err == nil && sent.Load() == before {
			err = errors.New("the hostile user sent nothing")
		}
		return run, err
	}
	var windows [2][]*Run
	for range hostileRounds {
		for kind, messages := range [2][]string{a.harmless, a.hostile} {
			run, err := during(messages)
			if err != nil {
				return nil, nil, err
			}
			windows[kind] = append(windows[kind], run)
		}
	}
	harmless, hostile = middleRun(windows[0]), middleRun(windows[1])
	if _, err := g.stop(0); err != nil {
		if b := (*badRun)(nil); !errors.As(err, &b) {
			return nil, nil, err
		}
		hostile.Error = err.Error()
	}
	return harmless, hostile, nil
}

// sendAgain sends messages in rotation until ctx ends, and reconnects after a close.
func sendAgain(ctx context.Context, g *rig, bearer string, messages []string, sent *atomic.Int64) {
	for ctx.Err() == nil {
		_ = sendUntilClosed(ctx, g, bearer, messages, sent) // the gateway may close it
		_ = wait(ctx, time.Second/hostilePerSec)
	}
}

func sendUntilClosed(ctx context.Context, g *rig, bearer string, messages []string, sent *atomic.Int64) error {
	ws, _, err := websocket.Dial(ctx, "ws://"+g.address+"/stream", &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + bearer}}})
	if err != nil {
		return err
	}
	ws.SetReadLimit(64 << 20)
	ctx, stop := context.WithCancel(ctx)
	var reader sync.WaitGroup
	defer reader.Wait()
	defer func() { _ = ws.CloseNow() }()
	defer stop()
	reader.Go(func() {
		defer stop()
		buf := make([]byte, 16<<10) // answers are dropped cheaply: this process shares the cores
		for {
			_, message, err := ws.Reader(ctx)
			if err != nil {
				return
			}
			n, err := io.ReadFull(message, buf[:256])
			if err == nil {
				_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, message, buf[256:])
			}
			if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				return
			}
			if bytes.Contains(buf[:n], []byte(`"action":"ping"`)) {
				_ = ws.Write(ctx, websocket.MessageText, []byte(`{"action":"pong"}`))
			}
		}
	})
	tick := time.NewTicker(time.Second / hostilePerSec)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if err := ws.Write(ctx, websocket.MessageText, []byte(messages[i%len(messages)])); err != nil {
			return err
		}
		sent.Add(1)
	}
}
