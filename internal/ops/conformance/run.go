package conformance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ruedahq/rueda/market"
)

// Result is the result of a case.
type Result struct {
	Name   string        `json:"name"`
	What   string        `json:"what"`
	Faults []string      `json:"faults,omitempty"` // what the client did wrong; none: it passed
	Trades int           `json:"trades"`           // that the client printed
	Broken int           `json:"broken,omitempty"` // connections, of Kills
	Stderr string        `json:"stderr,omitempty"` // the end of the client's standard error, if it failed
	Took   time.Duration `json:"-"`
}

// Passed reports whether the client did nothing wrong.
func (r *Result) Passed() bool { return len(r.Faults) == 0 }

// caseLimit bounds the time of a case that states no other limit.
const caseLimit = 2 * time.Minute

// Run runs a case with a program as client. The error is about the suite itself or ctx.
func Run(ctx context.Context, c *Case, command []string) (Result, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.limit, caseLimit))
	defer cancel()
	folder, err := os.MkdirTemp("", "rueda-conformance-")
	if err != nil {
		return Result{}, err
	}
	r, err := c.run(ctx, folder, command)
	r.Name, r.What, r.Took = c.Name, c.What, time.Since(began)
	return r, errors.Join(err, os.RemoveAll(folder))
}

func (c *Case) run(ctx context.Context, folder string, command []string) (r Result, err error) {
	w, err := newWorld(folder, c.accessTTL)
	if err != nil {
		return r, err
	}
	w.market.trades = cmp.Or(c.trades, 1)
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.up(ctx); err != nil {
		return r, err
	}
	t := task{urls: []string{w.proxy.url()}, instruments: slices.Concat(instruments, c.instruments), password: clientPassword, folder: filepath.Join(folder, "client")}
	if c.both {
		t.urls = append(t.urls, w.second.url())
	}
	if c.password != "" {
		t.password = c.password
	}
	if err := os.Mkdir(t.folder, 0o700); err != nil {
		return r, err
	}
	if w.program, err = start(ctx, command, t); err != nil {
		return r, err
	}
	if err := c.script(ctx, w); err != nil {
		w.program.fault("%v", err)
	} else if len(c.ends) > 0 {
		c.checkEnd(ctx, w)
	} else if err := w.checkAll(ctx); err != nil {
		return r, err
	}
	if err := w.program.finish(); err != nil {
		w.program.fault("%v", err)
	}
	w.program.mu.Lock()
	defer w.program.mu.Unlock()
	r.Faults, r.Broken = w.program.judge.faults, w.broken
	for _, s := range w.program.judge.seen {
		for _, list := range s.trades {
			r.Trades += len(list)
		}
	}
	if !r.Passed() {
		r.Stderr = w.program.errors.String()
	}
	return r, nil
}

// checkEnd checks that the client gives up for the right reason, and stays away.
func (c *Case) checkEnd(ctx context.Context, w *world) {
	err := w.program.until(ctx, patience, "\"end\"", func(j *judge) bool { return j.end != "" })
	if err == nil {
		err = w.program.exits(exitPatience)
	}
	w.program.mu.Lock()
	defer w.program.mu.Unlock()
	j := w.program.judge
	if err != nil {
		j.fault("%v", err)
	} else if !slices.Contains(c.ends, j.end) {
		j.fault("it gave up with the reason %q, want one of %q", j.end, c.ends)
	}
	if n := w.proxy.attempts(); c.password != "" && n > maxTries {
		j.fault("it tried to log in with a wrong password %d times", n)
	}
}

// checkAll stops the market and compares what the client has printed with the truth.
func (w *world) checkAll(ctx context.Context) error {
	w.market.pause()
	if err := w.note(ctx); err != nil {
		return err
	}
	present := w.truth[w.epochs[len(w.epochs)-1]]
	err := w.program.until(ctx, patience, "the newest trade of each instrument", func(j *judge) bool {
		for _, name := range instruments {
			s, last := j.of(name), newestOf(present[name])
			if s.newest() < last && !s.isLost(s.epoch, last) {
				return false
			}
		}
		return true
	})
	if err != nil {
		w.program.fault("%v", err)
	}
	for _, name := range instruments {
		if err := w.checkBook(ctx, name); err != nil {
			return err
		}
	}
	w.program.mu.Lock()
	defer w.program.mu.Unlock()
	j := w.program.judge
	if j.end != "" {
		j.fault("it gave up with the reason %q", j.end)
	}
	for _, name := range instruments {
		s := j.of(name)
		if s.epoch >= len(w.epochs) {
			j.fault("it reported %d changes of the epoch for %s, but there were %d", s.epoch, name, len(w.epochs)-1)
			continue
		}
		for i, epoch := range w.epochs {
			j.compare(name, i, w.truth[epoch][name], i == len(w.epochs)-1)
		}
	}
	return nil
}

// bookPatience is how long a client may take to print the last change of a book.
const bookPatience = 5 * time.Second

// checkBook compares the client's newest book of an instrument with that of the gateway.
func (w *world) checkBook(ctx context.Context, name string) error {
	var answer struct {
		Data struct {
			N    uint64
			B, A [][]json.Number
		}
	}
	if err := w.call(ctx, http.MethodGet, "/market/book?instrument="+url.QueryEscape(name), "", &answer); err != nil {
		return err
	}
	var sides [2][]market.Level
	for i, side := range [][][]json.Number{answer.Data.B, answer.Data.A} {
		for _, l := range side {
			price, err1 := market.ParsePrice(l[0].String())
			size, err2 := market.ParsePrice(l[1].String())
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			sides[i] = append(sides[i], market.Level{Price: price, Size: market.Size(size)})
		}
	}
	err := w.program.until(ctx, bookPatience, fmt.Sprintf("the book %d of %s as GET /market/book has it", answer.Data.N, name), func(j *judge) bool {
		return j.of(name).same(sides[0], sides[1])
	})
	if err != nil {
		w.program.fault("%v", err)
	}
	return nil
}
