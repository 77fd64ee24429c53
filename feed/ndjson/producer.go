package ndjson

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// producer is one connection. Only its own goroutine uses it.
type producer struct {
	source   *Source
	registry *registry
	conn     net.Conn
	log      *slog.Logger

	in      *bufio.Reader
	long    []byte // a line that exceeds the buffer of in
	out     *bufio.Writer
	decoder wire.LineDecoder
	decoded wire.Line
	line    int // number of the current line, from 1
	faults  int // invalid lines in a row
	ignored bool

	batch  []market.Event
	lines  []int          // line number of each event of the batch
	levels []market.Level // of the batch

	known      map[market.InstrumentID]*instrument // used by this producer
	venues     map[*venue]struct{}                 // fed by this producer
	staleBooks map[*instrument]bool                // of this producer; true if published as stale
	bookCopies map[*instrument]*market.Book        // copies of its books that are complete
	last       map[sequenceKey]uint64
}

// sequenceKey identifies a sequence of SQ. T, X and C share one; the others have their own.
type sequenceKey struct {
	handle  market.Handle
	channel market.Kind
}

// Limits of a batch. A batch is published when it reaches one of them, or when no other line has
// arrived.
const (
	maxBatch       = 512
	maxBatchLevels = 1 << 14
)

var (
	errTooLong = errors.New("line too long")
	errTooMany = errors.New("too many invalid lines")
)

func newProducer(s *Source, r *registry, conn net.Conn, from net.Addr) *producer {
	return &producer{
		source: s, registry: r, conn: conn,
		log:        s.config.Logger.With("producer", from.String()),
		in:         bufio.NewReaderSize(conn, 64<<10),
		out:        bufio.NewWriter(conn),
		known:      make(map[market.InstrumentID]*instrument),
		venues:     make(map[*venue]struct{}),
		staleBooks: make(map[*instrument]bool),
		bookCopies: make(map[*instrument]*market.Book),
		last:       make(map[sequenceKey]uint64),
	}
}

// run reads lines until the producer disconnects or the context ends. It returns nil if the
// producer closed the connection.
func (p *producer) run(ctx context.Context) error {
	defer func() { p.registry.leave(p.staleBooks, p.known, p.venues) }()
	for {
		line, err := p.next()
		if err == nil || errors.Is(err, errTooLong) || errors.Is(err, io.EOF) && len(line) > 0 {
			p.line++
			p.handle(line, err)
		}
		if p.faults >= p.source.config.MaxFaults {
			p.publish()
			p.closeWithError(wire.NewFault(wire.TooManyFailures, fmt.Sprintf("%d invalid lines in a row", p.faults)))
			return errTooMany
		}
		if !p.lineBuffered() || len(p.batch) >= maxBatch || len(p.levels) >= maxBatchLevels {
			p.publish()
			if err := p.flush(); err != nil {
				return fmt.Errorf("answer producer: %w", err)
			}
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, errTooLong):
			return fmt.Errorf("read from producer: %w", err)
		}
	}
}

// handle processes one line. err is errTooLong for a line that was too long to be read.
func (p *producer) handle(data []byte, err error) {
	var fault *wire.Fault
	switch {
	case errors.Is(err, errTooLong):
		fault = wire.NewFault(wire.MessageTooBig, fmt.Sprintf("longer than %d bytes", MaxLine))
	case len(data) == 0:
		return
	default:
		fault = p.decoder.Decode(data, &p.decoded)
		p.unknown(&p.decoded)
		if fault == nil {
			fault = p.event(&p.decoded)
		} else {
			p.lostUpdate(&p.decoded)
		}
	}
	p.source.count(func(c *Stats) { c.Lines++ })
	if fault != nil {
		p.fault(p.line, fault)
		return
	}
	p.faults = 0
}

// event adds the event of a line to the batch.
func (p *producer) event(l *wire.Line) *wire.Fault {
	switch {
	case l.Definition != nil:
		return p.define(l.Definition)
	case l.ID.IsPattern():
		return p.wholeMarket(l)
	}
	i := p.instrument(l.ID)
	if i == nil {
		return wire.NewFault(wire.UnknownInstrument, l.ID.String()+" is not defined: send its F line first")
	}
	e := l.Event
	e.Handle = i.handle
	switch e.Kind {
	case market.KindQuote:
		if !i.quotesFromFeed.Load() {
			p.ignore(i)
			return nil
		}
	case market.KindSnapshot, market.KindUpdate:
		if i.noBook.Load() {
			return wire.NewFault(wire.BadField, l.ID.String()+" was defined with no_book")
		}
	}
	if f := p.sequence(i, &e); f != nil {
		return f
	}
	if f := p.validate(i, &e); f != nil {
		return f
	}
	switch e.Kind {
	case market.KindStatus:
		if !e.Phase.OfFeed() {
			i.phase.Store(uint32(e.Phase))
		}
	case market.KindSnapshot:
		p.staleBooks[i] = false
	case market.KindUpdate:
		if _, fed := p.staleBooks[i]; !fed {
			p.staleBooks[i] = false
		}
	case market.KindGap:
		p.staleBooks[i] = true
		delete(p.bookCopies, i)
	}
	e.Bids, e.Asks = p.copyLevels(e.Bids), p.copyLevels(e.Asks)
	p.add(e)
	return nil
}

func (p *producer) define(in *market.Instrument) *wire.Fault {
	p.publish() // earlier lines belong to the old definition
	i, err := p.registry.define(*in)
	if err != nil {
		return wire.NewFault(wire.BadField, "definition refused: "+err.Error())
	}
	p.use(i)
	return nil
}

// wholeMarket handles H and Gap of *|MARKET|*.
func (p *producer) wholeMarket(l *wire.Line) *wire.Fault {
	v := p.registry.venue(l.ID.Market)
	if v == nil {
		return wire.NewFault(wire.UnknownInstrument, "no instrument of market "+l.ID.Market+" is defined: send an F line first")
	}
	p.joinMarket(v)
	e := l.Event
	if e.Kind == market.KindStatus {
		if !e.Phase.OfFeed() {
			v.phase.Store(uint32(e.Phase))
		}
		e.Handle = v.handle
		p.add(e)
		return nil
	}
	for _, i := range p.registry.instrumentsOf(v.name) {
		e.Handle = i.handle
		p.add(e)
	}
	return nil
}

// instrument returns a defined instrument, or nil.
func (p *producer) instrument(id market.InstrumentID) *instrument {
	i, ok := p.known[id]
	if !ok {
		if i = p.registry.instrument(id); i != nil {
			p.use(i)
		}
	}
	return i
}

func (p *producer) use(i *instrument) {
	p.known[i.id] = i
	p.joinMarket(i.venue)
}

func (p *producer) joinMarket(v *venue) {
	if _, ok := p.venues[v]; !ok {
		p.venues[v] = struct{}{}
		p.registry.join(v)
	}
}

// sequence checks SQ. A gap in the book's numbers makes the book stale; any other gap is published
// as a gap of the instrument.
func (p *producer) sequence(i *instrument, e *market.Event) *wire.Fault {
	key := sequenceKey{i.handle, e.Kind}
	switch e.Kind {
	case market.KindCancel, market.KindCorrect:
		key.channel = market.KindTrade
	case market.KindSnapshot:
		key.channel = market.KindUpdate
	case market.KindGap:
		return nil
	}
	if e.Sequence == 0 {
		return nil
	}
	last := p.last[key]
	switch {
	case last == 0, e.Kind == market.KindSnapshot, e.Sequence == last+1:
	case e.Sequence <= last:
		return wire.NewFault(wire.BadField, "SQ must rise: "+strconv.FormatUint(e.Sequence, 10)+" came after "+strconv.FormatUint(last, 10))
	default:
		p.gap(i, e, last)
	}
	p.last[key] = e.Sequence
	return nil
}

func (p *producer) gap(i *instrument, e *market.Event, last uint64) {
	p.source.count(func(c *Stats) { c.Gaps++ })
	what := fmt.Sprintf("SQ of %s goes from %d to %d", i.id, last, e.Sequence)
	if e.Kind == market.KindUpdate {
		what += ": the book is stale until an O line with R:true"
		p.markStale(i, "sequence_gap")
	} else {
		p.add(market.Event{Kind: market.KindStatus, Handle: i.handle, Phase: market.Gap, Reason: "sequence_gap"})
	}
	p.warn("sequence_gap", what)
	p.log.Warn("producer skipped sequence numbers", "instrument", i.id.String(), "last", last, "sequence", e.Sequence)
}

// markStale publishes that a book has lost updates, unless that was published already.
func (p *producer) markStale(i *instrument, reason string) {
	delete(p.bookCopies, i)
	if !p.staleBooks[i] {
		p.staleBooks[i] = true
		p.add(market.Event{Kind: market.KindGap, Handle: i.handle, Reason: reason})
	}
}

// lostUpdate marks a book stale when a line that should have changed it is skipped.
func (p *producer) lostUpdate(l *wire.Line) {
	if l.Event.Kind != market.KindUpdate && l.Event.Kind != market.KindSnapshot {
		return
	}
	if i := p.known[l.ID]; i != nil && !i.noBook.Load() {
		if _, fed := p.staleBooks[i]; fed {
			p.markStale(i, "bad_line")
		}
	}
}

// ignore drops a quote and warns the producer once.
func (p *producer) ignore(i *instrument) {
	p.source.count(func(c *Stats) { c.Ignored++ })
	if !p.ignored {
		p.ignored = true
		p.warn("quote_ignored", i.id.String()+" derives its quotes from its book: Q lines are ignored unless F has own_quotes (reported once)")
	}
}

func (p *producer) add(e market.Event) {
	p.batch = append(p.batch, e)
	p.lines = append(p.lines, p.line)
}

// copyLevels copies levels to a buffer that stays valid until the batch is published.
func (p *producer) copyLevels(levels []market.Level) []market.Level {
	if len(levels) == 0 {
		return nil
	}
	n := len(p.levels)
	p.levels = append(p.levels, levels...)
	return p.levels[n:len(p.levels):len(p.levels)]
}

// publish publishes the batch and answers the events that the sink rejected.
func (p *producer) publish() {
	for len(p.batch) > 0 {
		refused := p.registry.publish(p.batch)
		batch, lines := p.batch, p.lines
		p.batch, p.lines = nil, nil
		for _, r := range refused {
			e := &batch[r.Index]
			p.fault(lines[r.Index], wire.NewFault(wire.BadField, "refused: "+r.Reason+": "+r.Detail))
			if e.Kind == market.KindUpdate || e.Kind == market.KindSnapshot {
				p.markHandleStale(e.Handle)
			}
		}
		if len(p.batch) == 0 {
			clear(batch)
			p.batch, p.lines = batch[:0], lines[:0]
		}
	}
	p.levels = p.levels[:0]
}

// markHandleStale marks a book stale after the sink rejected a change of it.
func (p *producer) markHandleStale(h market.Handle) {
	for i := range p.staleBooks {
		if i.handle == h {
			p.markStale(i, "event_refused")
		}
	}
}
