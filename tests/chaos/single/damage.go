package single

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ruedahq/rueda/tests/chaos/check"
	"github.com/ruedahq/rueda/tests/chaos/market"
	"github.com/ruedahq/rueda/tests/chaos/producer"
	"github.com/ruedahq/rueda/tests/chaos/stream"
)

// Damage damages a file of a data folder count times, starts a gateway on it, and judges what it
// says. It must start or say why not, state no wrong value, and say which rows are missing.
func Damage(ctx context.Context, c Config, count int) (*check.Report, error) {
	var folders []*prepared
	for _, v := range []struct {
		name    string
		virtual bool
		end     syscall.Signal
	}{{"clean", false, syscall.SIGTERM}, {"killed", false, syscall.SIGKILL}, {"days", true, syscall.SIGTERM}, {"killed-days", true, syscall.SIGKILL}} {
		p, err := prepare(ctx, c, v.name, v.virtual, v.end)
		if err != nil {
			return nil, err
		}
		folders = append(folders, p)
	}
	report := check.NewReport()
	r := rand.New(rand.NewPCG(c.Seed, 2))
	for i := range count {
		d := &damage{p: folders[i%len(folders)], report: report, r: r, logf: c.Logf}
		if err := d.run(ctx); err != nil {
			return report, fmt.Errorf("damage %d, %s: %w", i, d.what, err)
		}
		report.Count("damages", 1)
		if i%50 == 49 {
			_, first := report.Violations()
			c.Logf("%s %q", report, first)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return report, nil
}

// damage is one damage and what follows from it.
type damage struct {
	p       *prepared
	report  *check.Report
	r       *rand.Rand
	logf    func(format string, args ...any)
	what    string
	journal bool // of a file of the journal
	judge   *check.Judge
	token   string
	epoch   string
	some    []*market.Instrument      // those that are read
	stored  map[string]map[int64]bool // over REST, of the current epoch, by series
}

func (d *damage) wrong(kind, format string, args ...any) {
	d.report.Violation(kind, "%s: %s", d.what, fmt.Sprintf(format, args...))
}

// run damages a file, and judges the gateway.
func (d *damage) run(ctx context.Context) error {
	if err := d.p.restore(); err != nil {
		return err
	}
	if err := d.change(); err != nil {
		return err
	}
	found := check.NewReport()
	d.judge = d.p.judge.Clone(found)
	d.judge.Epochs, d.judge.Missing = true, true
	_ = os.Remove(d.p.gateway.log())
	err := d.p.gateway.Start(ctx)
	var ended *Ended
	if errors.As(err, &ended) {
		d.report.Count("did not start", 1)
		d.logf("%s: did not start: %s: %s", d.what, ended.Status, ended.Log[strings.LastIndexByte(ended.Log, '\n')+1:])
		if ended.Log == "" || strings.Contains(ended.Log, "goroutine ") || strings.Contains(ended.Log, "panic") {
			d.wrong("start", "%v", err)
		}
		return nil
	}
	if err != nil {
		d.wrong("start", "%v", err)
		return d.p.gateway.Stop(syscall.SIGKILL)
	}
	if err := d.ask(ctx); err != nil {
		d.wrong("answer", "%v; the log: %s", err, d.p.gateway.tail())
	}
	if d.epoch != "" && d.r.IntN(4) == 0 {
		if err := d.continueMarket(ctx); err != nil {
			d.wrong("continue", "%v; the log: %s", err, d.p.gateway.tail())
		}
	}
	d.report.Count("messages", found.Get("messages"))
	d.report.Count("history rows", found.Get("history rows"))
	if _, first := found.Violations(); len(first) > 0 {
		for _, text := range first {
			d.wrong("value", "%s", text)
		}
	}
	if text, err := os.ReadFile(d.p.gateway.log()); err == nil && strings.Contains(string(text), "panic") {
		d.wrong("panic", "%s", text)
	}
	return d.p.gateway.Stop([]syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}[d.r.IntN(2)])
}

// change damages a file: most often one of the journal.
func (d *damage) change() error {
	var journal, others []string
	for _, name := range d.p.files {
		if strings.HasPrefix(name, "journal"+string(filepath.Separator)) {
			journal = append(journal, name)
		} else {
			others = append(others, name)
		}
	}
	list := journal
	if d.r.IntN(12) == 0 {
		list = others
	}
	name := list[d.r.IntN(len(list))]
	d.journal = len(journal) > 0 && slices.Contains(journal, name)
	path := filepath.Join(d.p.gateway.Data(), name)
	if d.r.IntN(4) == 0 {
		d.what = fmt.Sprintf("%s: %s removed", d.p.name, name)
		return os.Remove(path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if len(text) == 0 {
		d.what = fmt.Sprintf("%s: a byte in the empty %s", d.p.name, name)
		return os.WriteFile(path, []byte{byte(d.r.IntN(256))}, 0o600)
	}
	at := d.r.IntN(len(text))
	switch d.r.IntN(3) {
	case 0:
		bit := byte(1) << d.r.IntN(8)
		d.what = fmt.Sprintf("%s: %s, bit %#x of byte %d of %d", d.p.name, name, bit, at, len(text))
		text[at] ^= bit
	case 1:
		at &^= 4095
		d.what = fmt.Sprintf("%s: %s, zeros from %d of %d", d.p.name, name, at, len(text))
		clear(text[at:min(at+4096, len(text))])
	case 2:
		d.what = fmt.Sprintf("%s: %s cut to %d of %d", d.p.name, name, at, len(text))
		text = text[:at]
	}
	return os.WriteFile(path, text, 0o600)
}

// ask reads what the gateway has, in several ways, and compares it.
func (d *damage) ask(ctx context.Context) error {
	address := d.p.gateway.Address
	var err error
	if d.token, err = stream.Login(ctx, address, User, Password); err != nil {
		if d.journal || check.Internal(err) {
			return err
		}
		d.report.Count("no login", 1) // the users are what was damaged
		return nil
	}
	var list struct{ Instruments []struct{ Instrument string } }
	if err := stream.Get(ctx, address, d.token, "/market/instruments", nil, &list); err != nil {
		return err
	}
	if len(list.Instruments) != len(d.p.market.Instruments) {
		d.wrong("instruments", "%v", list.Instruments)
		return nil
	}
	d.stored = map[string]map[int64]bool{}
	for _, i := range d.r.Perm(len(d.p.market.Instruments))[:2] {
		d.some = append(d.some, d.p.market.Instruments[i])
		numbers, epoch, err := d.judge.Stored(ctx, address, d.token, d.p.market.Instruments[i])
		if err != nil {
			return err
		}
		d.epoch = epoch
		maps.Copy(d.stored, numbers)
	}
	if d.epoch == d.p.epoch {
		d.report.Count("same epoch", 1)
	} else {
		d.report.Count("new epoch", 1)
	}
	for _, position := range []string{"", d.p.position} {
		if err := d.resume(ctx, position); err != nil {
			return err
		}
	}
	return nil
}

// resume resumes everything from before the first event: by N, or by a position.
func (d *damage) resume(ctx context.Context, position string) error {
	r, err := replay(ctx, d, position)
	if err != nil {
		return err
	}
	final := d.p.judge.Final()
	lost := false
	for series, have := range d.stored {
		channel, _, _ := strings.Cut(series, " ")
		if channel == "quotes" || d.epoch != d.p.epoch {
			continue
		}
		// A position is not before what was there when it was made.
		first := int64(1)
		if position != "" {
			first = r.first(series, final[series])
		}
		for n := first; n <= final[series]; n++ {
			got, gone := r.got[series][n], r.isLost(series, n)
			lost = lost || gone
			if got == gone || got != have[n] {
				d.wrong("rows", "position %q: %s N %d of %d: replayed %v, lost %v, in history %v; history has %s, replayed were %s, lost %v", position,
					series, n, final[series], got, gone, have[n], runs(have), runs(r.got[series]), r.lost[series])
				break
			}
		}
	}
	if d.epoch != d.p.epoch && !r.changed {
		d.wrong("rows", "position %q: a new epoch, and no lost with epoch_changed", position)
	}
	if lost {
		d.report.Count("resumes with lost rows", 1)
	}
	d.report.Count("resumes", 1)
	return nil
}

// continueMarket lets the producer resume, and checks that what it sends is stored.
func (d *damage) continueMarket(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	send := producer.New(producer.Config{
		Market: d.p.market, Name: "p", Resume: "chaos", Token: secret, Addresses: []string{d.p.gateway.Feed}, From: d.p.end,
	})
	end := send.StopAt(d.p.market.Start.Add(time.Duration(d.p.end+100) * d.p.market.Step))
	done := make(chan struct{})
	go func() {
		defer close(done)
		send.Run(ctx)
	}()
	defer func() { stop(); <-done }()
	if !producer.Until(ctx, send.Drained) {
		return fmt.Errorf("no Ack: %v", send.Refused())
	}
	for _, text := range append(send.Refused(), send.Lost()...) {
		if d.epoch == d.p.epoch {
			d.wrong("line", "%s", text)
		}
	}
	for _, in := range d.some {
		h, err := stream.ReadHistory(ctx, d.p.gateway.Address, d.token, "trades", in.ID, "", 0)
		if err != nil {
			return err
		}
		newest := in.Nth(market.ChannelTrades, in.Count(market.ChannelTrades, end-1))
		if n := len(h.Rows); n == 0 || h.Rows[n-1].T != market.Stamp(in.Time(newest)) {
			return fmt.Errorf("%s ends before event %d: %d rows", in.ID, newest, n)
		}
		if _, _, err := d.judge.Stored(ctx, d.p.gateway.Address, d.token, in); err != nil {
			return err
		}
	}
	d.report.Count("continued", 1)
	return nil
}

// runs returns the ranges of numbers that are present.
func runs(present map[int64]bool) string {
	var text []string
	list := slices.Sorted(maps.Keys(present))
	for i := 0; i < len(list); {
		from := i
		for i++; i < len(list) && list[i] == list[i-1]+1; i++ {
		}
		text = append(text, fmt.Sprintf("%d-%d", list[from], list[i-1]))
	}
	return strings.Join(text, " ")
}

// replayed is what came of a resume.
type replayed struct {
	got     map[string]map[int64]bool
	lost    map[string][]stream.Range
	changed bool // there was a lost with epoch_changed
}

func (r *replayed) isLost(series string, n int64) bool {
	return slices.ContainsFunc(r.lost[series], func(g stream.Range) bool { return n >= g.From && n <= g.To })
}

// first returns the smallest N that came or is lost, at most one more than the newest one.
func (r *replayed) first(series string, newest int64) int64 {
	first := newest + 1
	for n := range r.got[series] {
		first = min(first, n)
	}
	for _, g := range r.lost[series] {
		first = min(first, g.From)
	}
	return first
}

// replay resumes trades, statuses and bars, and judges all messages until CaughtUp.
func replay(ctx context.Context, d *damage, position string) (*replayed, error) {
	s, err := stream.Dial(ctx, d.p.gateway.Address, stream.Options{})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var ids, bars []string
	newest, newestBars := map[string]int64{}, map[string]int64{}
	for _, in := range d.some {
		ids, bars = append(ids, in.ID), append(bars, in.ID+"|1s", in.ID+"|1m")
		newest[in.ID], newestBars[in.ID+"|1s"], newestBars[in.ID+"|1m"] = 0, 0, 0
	}
	resume := map[string]any{"epoch": d.p.epoch, "trades": newest, "status": newest, "bars": newestBars}
	if position != "" {
		resume = map[string]any{"epoch": d.p.epoch, "position": position}
	}
	for _, m := range []map[string]any{
		{"action": "auth_token", "token": d.token},
		{"action": "subscribe", "trades": ids, "status": ids, "bars": bars, "quotes": ids, "order_book": ids, "depth": 0, "resume": resume},
	} {
		if err := s.Send(m); err != nil {
			return nil, err
		}
	}
	r := &replayed{got: map[string]map[int64]bool{}, lost: map[string][]stream.Range{}}
	for end := time.Now().Add(30 * time.Second); ; {
		m, err := s.Read(end)
		if err != nil {
			return nil, fmt.Errorf("resume with position %q: %w", position, err)
		}
		switch {
		case m.Action == "ping":
			_ = s.Send(map[string]any{"action": "pong"})
		case m.Type == "CaughtUp":
			return r, nil
		case m.Type == "Error" || len(m.Rejected) > 0:
			return nil, fmt.Errorf("resume with position %q: %s", position, m.Text)
		case m.Type == "Subscription":
			d.judge.Epoch(m.Epoch)
			d.ranges(r, m)
		case len(m.Type) == 1:
			r.take(d, m)
		}
	}
}

// take judges a message, which must be above those before it in its series.
func (r *replayed) take(d *damage, m *stream.Message) {
	if m.Type == "O" {
		return // what is known of the book is in the folder; the stream checks books
	}
	d.judge.Message(d.epoch, m, market.Book{}, 0)
	if m.N == nil || m.Snapshot() && m.Type != "K" {
		return
	}
	series := check.Series(m)
	if r.got[series] == nil {
		r.got[series] = map[int64]bool{}
	}
	if r.got[series][*m.N] {
		d.wrong("rows", "twice: %s", m.Text)
	}
	r.got[series][*m.N] = true
}

// ranges records rows that are lost. One without a beginning begins after the newest row.
func (d *damage) ranges(r *replayed, m *stream.Message) {
	for channel, list := range m.Lost {
		for ident, g := range list {
			series := channel + " " + ident
			if g.Reason == "epoch_changed" {
				r.changed = true
				continue
			}
			if g.Reason != "buffer_exceeded" || g.To == 0 {
				d.wrong("lost", "%s", m.Text)
			}
			if g.From == 0 {
				d.report.Count("lost without from", 1)
				for n := range r.got[series] {
					g.From = max(g.From, n)
				}
				g.From++
			}
			r.lost[series] = append(r.lost[series], g)
		}
	}
}
