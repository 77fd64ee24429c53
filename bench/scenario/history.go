package scenario

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/bench/host"
	"github.com/ruedahq/rueda/bench/load"
	"github.com/ruedahq/rueda/bench/pairs"
	"github.com/ruedahq/rueda/bench/pattern"
	"github.com/ruedahq/rueda/bench/proc"
)

const (
	historyConns = 20
	historyRows  = 300_000 // trades that exist before the measurement
	historyAsks  = 2       // concurrent pages
	historyPairs = 4       // pairs of windows of a gateway
)

// Workloads of History.
const (
	historyQuestions = "questions"
	historyJournal   = "journal"
)

// History measures how large history requests affect live subscribers: windows without requests
// alternate with windows in which pages of 10,000 trades are requested without a pause. It also
// measures the cost of the journal, and of delayed data.
func History(ctx context.Context, o Options) (*Report, error) {
	r, err := o.begin("history")
	if err != nil {
		return nil, err
	}
	if o.wants(historyQuestions) {
		if err := o.requests(ctx, r); err != nil {
			return r, err
		}
	}
	if o.wants(historyJournal) {
		if err := o.journal(ctx, r); err != nil {
			return r, err
		}
	}
	if o.wants(historyDelays) {
		if err := o.delays(ctx, r); err != nil {
			return r, err
		}
	}
	r.end()
	return r, nil
}

// requests compares windows with and without history requests: several on one gateway in
// alternating order, because the load of the machine changes from minute to minute.
func (o *Options) requests(ctx context.Context, r *Report) error {
	calm, asked := &Case{Name: "160 k/s to 20, none asks", Conns: historyConns}, &Case{Name: "160 k/s to 20 and questions", Conns: historyConns}
	r.Cases = append(r.Cases, calm, asked)
	var pages []float64
	for i := range o.Runs {
		from := len(calm.Rueda)
		n, err := o.historyOnce(ctx, r, calm, asked)
		if err != nil {
			return err
		}
		pages = append(pages, n)
		p99s, with := median(calm.Rueda[from:], p99), median(asked.Rueda[from:], p99)
		o.talk("%s %d: p99 %.3f ms, with questions %.3f; %.0f pages/s  %s", asked.Name, i+1, p99s, with, n, asked.Rueda[from].Error)
	}
	asked.Figures = append(asked.Figures,
		Figure{"pages of 10,000 trades a second", pairs.Median(pages), fmt.Sprintf("%.0f", pairs.Median(pages))},
		Figure{"p50 with questions, of that without", 0, fmt.Sprintf("%.3f", ratios(asked.Rueda, calm.Rueda, p50))})
	r.atMost(asked.Name+": p99 with questions, of that without", ratios(asked.Rueda, calm.Rueda, p99), 2.0, "%.3f")
	return nil
}

// historyOnce makes one run: it publishes trades, and then measures the windows. It returns the
// pages per second.
func (o *Options) historyOnce(ctx context.Context, r *Report, calm, asked *Case) (pages float64, err error) {
	g, err := hostRig(ctx, o, host.Config{Conns: historyConns, Journal: true})
	defer func() { err = errors.Join(err, g.close()) }()
	if err != nil {
		return 0, err
	}
	r.Limits = g.limits
	if _, err := g.open(load.Config{Conns: historyConns, Sets: oneTopic(), Sample: 3, Frontier: true}); err != nil {
		return 0, err
	}
	for n := uint64(0); n < historyRows; {
		if err := g.publish(pattern.Pattern{Kind: pattern.Window, Batch: 16, Window: 256}); err != nil {
			return 0, err
		}
		if err := wait(ctx, 300*time.Millisecond); err != nil {
			return 0, err
		}
		var p pattern.Published
		if err := g.server.Ask("stop", nil, &p); err != nil {
			return 0, err
		}
		n += p.Events
	}
	if err := g.publish(pattern.Pattern{Kind: pattern.Rate, Rate: 8000, Batch: 4}); err != nil {
		return 0, err
	}
	if err := wait(ctx, o.Warmup); err != nil {
		return 0, err
	}
	from := len(calm.Rueda)
	for k := range 2 * historyPairs {
		d := 2 * o.Window / historyPairs
		if (k+1)/2%2 == 0 { // calm, busy, busy, calm, and so on
			run, err := g.window(ctx, d)
			if err != nil {
				return 0, err
			}
			calm.Rueda = append(calm.Rueda, run)
			continue
		}
		run, n, err := g.asking(ctx, d)
		if err != nil {
			return 0, err
		}
		asked.Rueda, pages = append(asked.Rueda, run), pages+n/historyPairs
	}
	_, err = g.stop(0)
	if b := (*badRun)(nil); errors.As(err, &b) {
		for _, run := range slices.Concat(calm.Rueda[from:], asked.Rueda[from:]) {
			run.Error = b.Error()
		}
		err = nil
	}
	return pages, err
}

// asking makes a window in which history pages are requested without a pause.
func (r *rig) asking(ctx context.Context, d time.Duration) (*Run, float64, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var pages atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, historyAsks)
	for i := range historyAsks {
		all.Go(func() { errs[i] = r.ask(ctx, i*historyRows/historyAsks, &pages) })
	}
	run, err := r.window(ctx, d)
	n := float64(pages.Load()) / d.Seconds()
	stop()
	all.Wait()
	return run, n, errors.Join(append(errs, err)...)
}

// ask requests pages until ctx ends. Real clients are on other machines. Here the thread yields to
// all others, so that only the work of the server is measured.
func (r *rig) ask(ctx context.Context, from int, pages *atomic.Int64) error {
	runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
	proc.GiveWay()
	conn, err := net.Dial("tcp", r.address)
	if err != nil {
		return err
	}
	defer conn.Close()
	answers := bufio.NewReaderSize(conn, 64<<10)
	for n := 0; ctx.Err() == nil; n++ {
		u := fmt.Sprintf("%s/market/trades?instrument=%s&limit=10000&after_sequence=%d", r.rest, url.QueryEscape(pattern.ID(0).String()), from+n*997%(historyRows/4))
		req, err := http.NewRequest(http.MethodGet, u, nil)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+r.tokens[0])
		if err := req.Write(conn); err != nil {
			return err
		}
		res, err := http.ReadResponse(answers, req)
		if err != nil {
			return err
		}
		size, err := io.Copy(io.Discard, res.Body)
		if err := errors.Join(err, res.Body.Close()); err != nil {
			return err
		}
		if res.StatusCode != http.StatusOK || size < 10_000 {
			return fmt.Errorf("ask for a page: %s, %d bytes", res.Status, size)
		}
		pages.Add(1)
	}
	return nil
}

// journal compares gateways with and without a journal in pairs.
func (o *Options) journal(ctx context.Context, r *Report) error {
	with, without := &Case{Name: "160 k/s to 20, journal", Conns: historyConns}, &Case{Name: "160 k/s to 20, no journal", Conns: historyConns}
	r.Cases = append(r.Cases, with, without)
	p := pattern.Pattern{Kind: pattern.Rate, Rate: 8000, Batch: 4}
	for i := range o.Runs {
		for k := range 2 {
			c := with
			if (k+i)%2 == 1 {
				c = without
			}
			w := work{name: c.Name, conns: historyConns, rueda: &p, sample: 3, host: host.Config{Journal: c == with}}
			run, err := o.once(ctx, r, &w, false)
			if err != nil {
				return fmt.Errorf("%s: %w", c.Name, err)
			}
			c.Rueda = append(c.Rueda, run)
			o.talk("%s %d: p99 %.3f ms  %.3f s/M  %s", c.Name, i+1, run.P99, run.CPU, run.Error)
		}
	}
	with.Figures = append(with.Figures, Figure{"p99, of that without a journal", 0, fmt.Sprintf("%.3f", part(median(with.Rueda, p99), median(without.Rueda, p99)))})
	return nil
}

// journalFolder returns the folder of the journal in a measurement.
func (r *rig) journalFolder() string { return filepath.Join(r.folder, "journal") }
