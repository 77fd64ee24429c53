package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/market"
)

// decoder is the interface described in package decode.
type decoder interface {
	Decode(data []byte, b *decode.Batch) (n int, err error)
	End(rest []byte, b *decode.Batch) error
}

// records is a recording that a decoder reads.
type records struct {
	*shared
	decoder func() (decoder, error) // returns a new decoder for each pass
	listed  []market.Instrument
	markets []market.Market
}

// previewSize is how many bytes are read to find the instruments of a file.
const previewSize = 4 << 20

// openRecords returns the playable of a file of known format. It reads the beginning of the file to
// find its instruments.
func openRecords(s *shared, in *input, decoder func() (decoder, error)) (_ playable, err error) {
	r := &records{shared: s, decoder: decoder}
	d, err := decoder()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeDecoder(d)) }()
	var b decode.Batch
	err = r.preview(in, d, &b)
	if bad, ok := errors.AsType[*Error](err); ok && len(b.Listed) == 0 || err != nil && !ok {
		if ok {
			return nil, bad
		}
		return nil, err
	}
	r.listed = withoutMarkets(b.Listed)
	if n, ok := d.(interface{ Named() []market.Instrument }); ok {
		r.listed = merge(n.Named(), r.listed)
	}
	if m, ok := d.(interface{ Markets() []market.Market }); ok {
		r.markets = m.Markets()
	}
	return r, nil
}

// preview decodes the beginning of a file.
func (r *records) preview(in *input, d decoder, b *decode.Batch) error {
	for in.base < previewSize {
		n, err := d.Decode(in.data(), b)
		in.skip(n)
		b.Cut()
		b.Reset()
		if err != nil {
			return locate(in, d, 0, err)
		}
		if n > 0 {
			continue
		}
		if r.stream != nil && in.base > 0 && in.base+int64(len(in.data())) >= headSize {
			return nil // more may come late
		}
		if err := in.more(); ended(err) || truncated(d, err) {
			return locate(in, d, 0, d.End(in.data(), b))
		} else if err != nil {
			return locate(in, d, 0, err)
		}
	}
	return nil
}

// locate adds the position to an error that has none. The position is n bytes after the start of
// the window.
func locate(in *input, d decoder, n int, err error) error {
	if _, ok := errors.AsType[*Error](err); err == nil || ok || errors.Is(err, context.Canceled) {
		return err
	}
	bad := &Error{File: in.path, Offset: in.base + int64(n), Err: err}
	if text, ok := d.(interface{ Line() int }); ok {
		bad.Line = max(1, text.Line())
	}
	return bad
}

// closeDecoder closes the files of a decoder.
func closeDecoder(d decoder) error {
	if c, ok := d.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// withoutMarkets returns the instruments that are not markets as a whole.
func withoutMarkets(list []market.Instrument) []market.Instrument {
	var out []market.Instrument
	for _, in := range list {
		if !in.ID.IsPattern() {
			out = append(out, in)
		}
	}
	return out
}

// merge returns a followed by the elements of b that are not in a.
func merge(a, b []market.Instrument) []market.Instrument {
	seen := make(map[market.InstrumentID]bool, len(a))
	for _, in := range a {
		seen[in.ID] = true
	}
	for _, in := range b {
		if !seen[in.ID] {
			a = append(a, in)
		}
	}
	return a
}

func (r *records) instruments() []market.Instrument { return r.listed }

// play implements playable.
func (r *records) play(ctx context.Context, run *run) (err error) {
	in, err := r.openInput()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.close()) }()
	p := recordPlayer{run: run, in: in, pace: newPace(r.config.Speed, r.config.From)}
	p.batch.Stats = run.stats
	defer p.pace.stop()
	if err := p.restart(ctx); err != nil {
		return err
	}
	d, err := r.decoder()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDecoder(d)) }()
	if follower, ok := d.(interface{ CatchingUp() bool }); ok {
		p.reorder, p.catchingUp = new(reorderBuffer), follower.CatchingUp
	}
	for {
		n, bad := d.Decode(in.data(), &p.batch)
		if bad = locate(in, d, n, bad); bad != nil {
			_ = d.End(nil, &p.batch) // bad is the error
		}
		if err := p.publish(ctx, bad != nil); err != nil {
			return err
		}
		in.skip(n)
		if bad != nil {
			return bad
		}
		if n > 0 {
			continue
		}
		bad = in.more()
		if bad == nil {
			continue
		}
		if ended(bad) || truncated(d, bad) {
			bad = d.End(in.data(), &p.batch)
		} else {
			_ = d.End(nil, &p.batch) // bad is the error
		}
		bad = locate(in, d, 0, bad)
		return errors.Join(p.publish(ctx, true), bad)
	}
}

// recordPlayer plays a recording once.
type recordPlayer struct {
	*run
	in         *input
	pace       pace
	batch      decode.Batch
	handles    []market.Handle // the sink's handles, by the handles of the batch
	logged     int
	newest     int64          // due time of the newest event
	reorder    *reorderBuffer // nil: the recording is sorted
	catchingUp func() bool
}

// restart makes the books of the previous pass stale, and empty if they are known to begin empty.
func (p *recordPlayer) restart(ctx context.Context) error {
	if p.stats.Passes == 1 {
		return nil
	}
	var events []market.Event
	for _, in := range p.known {
		if in.ID.IsPattern() {
			continue
		}
		h, err := p.define(in)
		if err != nil {
			return err
		}
		events = append(events, market.Event{Kind: market.KindGap, Handle: h, Reason: "replay_restarted"})
		if in.StartsEmpty {
			events = append(events, market.Event{Kind: market.KindSnapshot, Handle: h, Time: in.Listed})
		}
	}
	if len(events) == 0 {
		return nil
	}
	return p.send(ctx, events)
}

// publish publishes the batch up to its last cut, each event when it is due, and updates the
// counters: not all records become events. If last is set it publishes everything.
func (p *recordPlayer) publish(ctx context.Context, last bool) error {
	b := &p.batch
	defer func() { p.count(b.Stats) }()
	if last {
		b.Cut()
	}
	p.logNotes()
	var events []market.Event
	if len(b.Cuts) > 0 {
		events = b.Events[:b.Cuts[len(b.Cuts)-1]]
	}
	defer b.Reset()
	if p.reorder == nil {
		if err := p.pass(ctx, events, b.Cuts); err != nil {
			return err
		}
	} else {
		for i := range events {
			p.reorder.add(&events[i])
		}
		if err := p.release(ctx, last); err != nil {
			return err
		}
	}
	if last { // instruments without events
		return p.list(&market.Event{Receive: p.newest})
	}
	return nil
}

// maxInstruments is the maximum number of instruments of a recording that are played. Each takes
// some kilobytes of memory.
const maxInstruments = 200_000

var errInstruments = fmt.Errorf("more than %d instruments: choose some by their symbols", maxInstruments)

// list defines the new instruments of the batch, listed at the time of the next event: most files
// do not contain listing times.
func (p *recordPlayer) list(next *market.Event) error {
	for len(p.handles) < len(p.batch.Listed) {
		if len(p.handles) == maxInstruments {
			return p.in.fault(errInstruments)
		}
		in := p.batch.Listed[len(p.handles)]
		if in.Listed == 0 {
			in.Listed = cmp.Or(next.Time, next.Receive)
		}
		h, err := p.define(in)
		if err != nil {
			return err
		}
		p.handles = append(p.handles, h)
	}
	return nil
}

// release publishes the events that are in order, or all events. It reports the number of late
// trades, because bars and figures may differ from the original.
func (p *recordPlayer) release(ctx context.Context, all bool) error {
	var cuts [maxEmit]int // each event can be published on its own
	for i := range cuts {
		cuts[i] = i + 1
	}
	a := p.reorder
	if err := a.flush(p.catchingUp(), all, func(events []market.Event) error { return p.pass(ctx, events, cuts[:len(events)]) }); err != nil {
		return err
	}
	if all && a.late > 0 {
		why := fmt.Sprintf("more than %v after later events", time.Duration(reorderWindow))
		if a.overflows > 0 {
			why = "when the memory for held events was full"
		}
		p.batch.Note("late_trades", "%d trades arrived %s: they were played late", a.late, why)
		p.logNotes()
	}
	return ctx.Err()
}

// pass publishes events with the sink's handles. They may be split at the cuts, of which the last
// is their end.
func (p *recordPlayer) pass(ctx context.Context, events []market.Event, cuts []int) error {
	if len(events) == 0 {
		return ctx.Err()
	}
	if err := p.list(&events[0]); err != nil {
		return err
	}
	for i := range events {
		events[i].Handle = p.handles[events[i].Handle]
	}
	if p.pace.speed > 0 {
		var err error
		if events, err = p.wait(ctx, events, cuts); err != nil {
			return err
		}
	}
	return p.send(ctx, events)
}

// wait publishes events as they become due, and returns the events that are due with the last one.
func (p *recordPlayer) wait(ctx context.Context, events []market.Event, cuts []int) ([]market.Event, error) {
	sent, begin := 0, 0
	for _, cut := range cuts {
		t := events[begin].Receive
		if t == 0 {
			t = events[begin].Time
		}
		if p.newest = max(p.newest, t); p.newest > 0 {
			if due := p.pace.until(p.newest); due > 0 {
				if err := p.send(ctx, events[sent:begin]); err != nil {
					return nil, err
				}
				sent = begin
				if err := p.pace.wait(ctx, due); err != nil {
					return nil, err
				}
			}
		}
		begin = cut
	}
	return events[sent:], nil
}

// send publishes events and updates the counters. It does so also without events, so that the
// counters are current while the player waits.
func (p *recordPlayer) send(ctx context.Context, events []market.Event) error {
	var err error
	if len(events) > 0 {
		last := &events[len(events)-1]
		p.last = cmp.Or(last.Time, last.Receive)
		err = p.countRejected(p.sink.Publish(events), &p.batch.Stats)
	}
	p.count(p.batch.Stats)
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// logNotes logs what is not played, once per reason.
func (p *recordPlayer) logNotes() {
	for ; p.logged < len(p.batch.Notes); p.logged++ {
		p.note(p.batch.Notes[p.logged], p.batch.Stats.Lines)
	}
}
