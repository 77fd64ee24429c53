package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ruedahq/rueda/bench/pairs"
	"github.com/ruedahq/rueda/bench/proc"
	"github.com/ruedahq/rueda/bench/tokens"
)

// Workloads of Auth.
const (
	authStore    = "store"
	authRefresh  = "refresh"
	authPostgres = "postgres"
	authVerify   = "verify"
	authLogin    = "login"
)

const (
	authClients  = 64
	authFamilies = 6400 // families have a limit of refreshes; these are enough for any window
	loginClients = 8
)

// Auth measures the cost of tokens: refreshes of the store alone and over HTTP, compared with a
// bare program that does one transaction and one signature. It also measures the check of a known
// token, and logins compared with the hash alone.
func Auth(ctx context.Context, o Options) (*Report, error) {
	r, err := o.begin("auth")
	if err != nil {
		return nil, err
	}
	for _, m := range []struct {
		name string
		run  func(context.Context, *Report) error
	}{
		{authStore, o.authStore}, {authRefresh, o.authRefresh}, {authPostgres, o.authPostgres}, {authVerify, o.authVerify}, {authLogin, o.authLogin},
	} {
		if !o.wants(m.name) {
			continue
		}
		if err := m.run(ctx, r); err != nil {
			return r, fmt.Errorf("%s: %w", m.name, err)
		}
	}
	r.end()
	return r, nil
}

// tokenPrograms starts n programs, and returns a function that closes them.
func (o *Options) tokenPrograms(ctx context.Context, n int) (list []*proc.Child, folder string, closeAll func() error, err error) {
	folder, err = os.MkdirTemp("", "rueda-bench-")
	closeAll = func() error {
		var errs []error
		for i := len(list) - 1; i >= 0; i-- { // clients first
			errs = append(errs, list[i].Close())
		}
		return errors.Join(append(errs, os.RemoveAll(folder))...)
	}
	for range n {
		if err == nil {
			var c *proc.Child
			if c, err = proc.Start(ctx, RoleTokens, append(append([]string(nil), o.Program...), RoleTokens), o.Env); err == nil {
				list = append(list, c)
			}
		}
	}
	return list, folder, closeAll, err
}

// alone has one program measure something by itself.
func (o *Options) alone(ctx context.Context, what string, postgres string, workers int) (rate tokens.Rate, err error) {
	list, folder, closeAll, err := o.tokenPrograms(ctx, 1)
	defer func() { err = errors.Join(err, closeAll()) }()
	if err != nil {
		return rate, err
	}
	err = list[0].Ask(what, tokens.Span{Config: tokens.Config{Folder: folder, Postgres: postgres}, Workers: workers, Seconds: o.Window.Seconds()}, &rate)
	return rate, err
}

// authStore measures the store alone: SQLite and, if available, PostgreSQL.
func (o *Options) authStore(ctx context.Context, r *Report) error {
	for _, s := range []struct {
		name, url string
		bound     float64
	}{{"SQLite", "", 4000}, {"PostgreSQL", o.Postgres, 8000}} {
		what := "refreshes/s in the store, " + s.name
		if s.name == "PostgreSQL" && s.url == "" {
			r.unmeasured(what, "no --postgres")
			continue
		}
		c := &Case{Name: "store alone, " + s.name, Conns: authClients}
		r.Cases = append(r.Cases, c)
		var rates []float64
		for i := range o.Runs {
			rate, err := o.alone(ctx, "store", s.url, authClients)
			if err != nil {
				return err
			}
			rates = append(rates, rate.PerSecond)
			o.talk("%s %d: %.0f", what, i+1, rate.PerSecond)
		}
		c.Figures = append(c.Figures, Figure{"refreshes/s", pairs.Median(rates), fmt.Sprintf("%.0f", pairs.Median(rates))})
		r.atLeast(what, pairs.Median(rates), s.bound, "%.0f")
	}
	return nil
}

func (o *Options) authRefresh(ctx context.Context, r *Report) error {
	return o.refreshes(ctx, r, "refreshes over HTTP, SQLite", "")
}

func (o *Options) authPostgres(ctx context.Context, r *Report) error {
	const name = "refreshes over HTTP, PostgreSQL"
	if o.Postgres == "" {
		r.unmeasured(name, "no --postgres")
		return nil
	}
	return o.refreshes(ctx, r, name, o.Postgres)
}

// refreshes compares the gateway with the bare program in pairs.
func (o *Options) refreshes(ctx context.Context, r *Report, name, postgres string) error {
	c := &Case{Name: name, Conns: authClients}
	r.Cases = append(r.Cases, c)
	var ratios, rates, bares []float64
	for i := range o.Runs {
		var got [2]float64
		for k := range 2 {
			bare := (k+i)%2 == 1
			asked, limits, err := o.refreshRun(ctx, postgres, bare)
			if err != nil {
				return err
			}
			rate := float64(asked.Answers) / asked.Seconds
			if bare {
				got[1] = rate
			} else {
				got[0], r.Limits = rate, limits
			}
		}
		ratios, rates, bares = append(ratios, part(got[0], got[1])), append(rates, got[0]), append(bares, got[1])
		o.talk("%s %d: %.0f/s, bare %.0f/s", name, i+1, got[0], got[1])
	}
	c.Figures = append(c.Figures,
		Figure{"refreshes/s", pairs.Median(rates), fmt.Sprintf("%.0f", pairs.Median(rates))},
		Figure{"bare transaction and signature/s", pairs.Median(bares), fmt.Sprintf("%.0f", pairs.Median(bares))})
	r.atLeast(name+", of the bare transaction and signature", pairs.Median(ratios), 0.8, "%.2f")
	return nil
}

func (o *Options) refreshRun(ctx context.Context, postgres string, bare bool) (asked tokens.Asked, limits string, err error) {
	list, folder, closeAll, err := o.tokenPrograms(ctx, 2)
	defer func() { err = errors.Join(err, closeAll()) }()
	if err != nil {
		return asked, "", err
	}
	what := "gateway"
	if bare {
		what = "bare"
	}
	var s tokens.Started
	if err := list[0].Ask(what, tokens.Config{Folder: filepath.Join(folder, "data"), Postgres: postgres}, &s); err != nil {
		return asked, "", err
	}
	err = list[1].Ask("ask", tokens.Asking{
		Address: s.Address, Clients: authClients, Families: authFamilies, Seconds: o.Window.Seconds(), Warmup: o.Warmup.Seconds(),
	}, &asked)
	return asked, s.Limits, err
}

func (o *Options) authVerify(ctx context.Context, r *Report) error {
	c := &Case{Name: "check of a token that was seen before"}
	r.Cases = append(r.Cases, c)
	var times []float64
	for i := range o.Runs {
		rate, err := o.alone(ctx, "verify", "", 1)
		if err != nil {
			return err
		}
		times = append(times, rate.Nanos/1000) // a thousand at a time
		o.talk("%s %d: %.0f ns", c.Name, i+1, rate.Nanos/1000)
	}
	c.Figures = append(c.Figures, Figure{"ns", pairs.Median(times), fmt.Sprintf("%.0f", pairs.Median(times))})
	r.atMost(c.Name+", µs", pairs.Median(times)/1000, 1, "%.3f")
	return nil
}

// authLogin compares logins with the hash alone, and measures the gateway's memory.
func (o *Options) authLogin(ctx context.Context, r *Report) error {
	c := &Case{Name: "logins", Conns: loginClients}
	r.Cases = append(r.Cases, c)
	var ratios, rates, raws, peaks []float64
	for i := range o.Runs {
		var rate, peak float64
		var raw tokens.Rate
		var err error
		for k := range 2 {
			if (k+i)%2 == 0 {
				raw, err = o.alone(ctx, "hash", "", 1)
			} else {
				rate, peak, err = o.loginRun(ctx)
			}
			if err != nil {
				return err
			}
		}
		ratios, rates, raws, peaks = append(ratios, part(rate, raw.PerSecond)), append(rates, rate), append(raws, raw.PerSecond), append(peaks, peak)
		o.talk("logins %d: %.1f/s, argon2id alone %.1f/s, memory grew by %s", i+1, rate, raw.PerSecond, size(peak))
	}
	c.Figures = append(c.Figures,
		Figure{"logins/s", pairs.Median(rates), fmt.Sprintf("%.1f", pairs.Median(rates))},
		Figure{"argon2id/s", pairs.Median(raws), fmt.Sprintf("%.1f", pairs.Median(raws))},
		Figure{"peak of memory behind the first logins", pairs.Median(peaks), size(pairs.Median(peaks))})
	r.atLeast("logins, of argon2id alone", pairs.Median(ratios), 0.95, "%.3f")
	r.holds("memory of logins beyond that of the first second: at most 32 MiB", pairs.Median(peaks) <= 32<<20, size(pairs.Median(peaks)))
	return nil
}

// loginRun returns logins per second, and the growth of peak memory after the first second.
func (o *Options) loginRun(ctx context.Context) (rate, grown float64, err error) {
	list, folder, closeAll, err := o.tokenPrograms(ctx, 2)
	defer func() { err = errors.Join(err, closeAll()) }()
	if err != nil {
		return 0, 0, err
	}
	var s tokens.Started
	if err := list[0].Ask("gateway", tokens.Config{Folder: filepath.Join(folder, "data"), Passwords: true}, &s); err != nil {
		return 0, 0, err
	}
	q := tokens.Asking{Address: s.Address, Clients: loginClients, Logins: true, Seconds: 1}
	var first, asked tokens.Asked
	var before, after tokens.Memory
	for _, step := range []func() error{
		func() error { return list[1].Ask("ask", q, &first) },
		func() error { return list[0].Ask("memory", nil, &before) },
		func() error {
			q.Seconds, q.Warmup = o.Window.Seconds(), min(o.Warmup, time.Second).Seconds()
			return list[1].Ask("ask", q, &asked)
		},
		func() error { return list[0].Ask("memory", nil, &after) },
	} {
		if err := step(); err != nil {
			return 0, 0, err
		}
	}
	return float64(asked.Answers) / asked.Seconds, float64(after.Peak - before.Peak), nil
}
