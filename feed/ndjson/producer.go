package ndjson

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// producer is one connection. Only its own goroutine uses it.
type producer struct {
	source   *Source
	registry *registry
	socket   net.Conn // as accepted
	conn     net.Conn // socket, or TLS on it
	from     string   // address of the peer
	name     string   // of the Hello; "": none
	subject  string   // of the client certificate; "": none
	log      *slog.Logger

	numbering string      // of the Hello: numbers are stored; "": they are not
	resumed   *resumption // nil: numbers are not stored

	evicted  atomic.Bool   // closed because too many connections have sent no Hello
	replaced atomic.Bool   // another producer of the same name has connected
	left     chan struct{} // closed when the registry has forgotten the producer

	in      *bufio.Reader
	long    []byte     // a line that exceeds the buffer of in
	writing sync.Mutex // guards out
	out     *bufio.Writer
	decoder wire.LineDecoder
	decoded wire.Line
	line    int // number of the current line, from 1
	faults  int // invalid lines in a row
	// invalid lines before the batch, which count again if the whole batch is rejected
	earlierFaults int
	ignored       bool

	batch  []entry
	levels []market.Level // of the batch

	known  map[market.InstrumentID]*instrument // defined by this producer
	used   []*instrument                       // the same, in the order of their definitions
	venues map[*venue]struct{}                 // fed by this producer
	books  map[*instrument]struct{}            // fed by this producer
	last   map[sequenceKey]uint64
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
	errTooLong  = errors.New("line too long")
	errTooMany  = errors.New("too many invalid lines")
	errReplaced = errors.New("a producer of the same name has connected")
)

// lineBuffer is the size of the read buffer of a producer that has sent its Hello.
const lineBuffer = 64 << 10

func newProducer(s *Source, r *registry, socket net.Conn, address net.Addr) *producer {
	conn, from := socket, address.String()
	if s.config.TLS != nil {
		conn = tls.Server(socket, s.config.TLS)
	}
	if s.socket != "" {
		from = "unix" // the peers of a Unix socket have no address
	}
	return &producer{
		source: s, registry: r, socket: socket, conn: conn, from: from,
		log:    s.config.Logger.With("producer", from),
		left:   make(chan struct{}),
		in:     bufio.NewReaderSize(conn, maxHello),
		out:    bufio.NewWriter(conn),
		known:  make(map[market.InstrumentID]*instrument),
		venues: make(map[*venue]struct{}),
		books:  make(map[*instrument]struct{}),
		last:   make(map[sequenceKey]uint64),
	}
}

// run reads lines until the producer disconnects or the context ends. It returns nil if the
// producer closed the connection.
func (p *producer) run(ctx context.Context) error {
	defer p.registry.leave(p)
	if p.resumed != nil {
		acks, stop := context.WithCancel(ctx)
		var acker sync.WaitGroup
		acker.Go(func() { p.acknowledge(acks) })
		defer acker.Wait()
		defer stop()
	}
	for {
		line, err := p.next()
		if err == nil || errors.Is(err, errTooLong) || errors.Is(err, io.EOF) && len(line) > 0 {
			p.line++
			p.handle(line, err)
		}
		batchEnds := p.faults >= p.source.config.MaxFaults || !p.lineBuffered() || len(p.batch) >= maxBatch || len(p.levels) >= maxBatchLevels
		if batchEnds {
			p.publish()
		}
		if p.faults >= p.source.config.MaxFaults {
			p.closeWithError(wire.NewFault(wire.TooManyFailures, fmt.Sprintf("%d invalid lines in a row", p.faults)))
			return errTooMany
		}
		if batchEnds {
			if err := p.flush(); err != nil {
				return fmt.Errorf("answer producer: %w", err)
			}
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && p.replaced.Load():
			p.answer(wire.AppendError(nil, wire.NewFault(wire.Replaced, "A producer of the same name has connected"), nil, nil))
			return errors.Join(errReplaced, p.flush())
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
	n := len(p.batch)
	switch {
	case errors.Is(err, errTooLong):
		p.decoded = wire.Line{}
		fault = wire.NewFault(wire.MessageTooBig, fmt.Sprintf("longer than %d bytes", MaxLine))
	case len(data) == 0:
		return
	default:
		fault = p.decoder.Decode(data, &p.decoded)
		p.unknown(&p.decoded)
	}
	if fault != nil {
		p.skip(&p.decoded, fault)
	} else {
		fault = p.event(&p.decoded)
	}
	p.source.count(func(c *Stats) { c.Lines++ })
	switch {
	case fault != nil:
		p.fault(p.line, fault, nil)
	case len(p.batch) > n:
		p.earlierFaults, p.faults = p.earlierFaults+p.faults, 0
	default:
		p.earlierFaults, p.faults = 0, 0
	}
}

// event adds the event of a line to the batch.
func (p *producer) event(l *wire.Line) *wire.Fault {
	switch {
	case l.Definition != nil:
		return p.define(l.Definition)
	case l.ID.IsPattern():
		return p.wholeMarket(l)
	}
	i := p.known[l.ID]
	if i == nil {
		if p.registry.belongsToOther(l.ID, p) {
			return p.refuseForeign(l.ID)
		}
		return wire.NewFault(wire.UnknownInstrument, l.ID.String()+" is not defined on this connection: send its F line first")
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
	if p.repeated(i, &e) {
		p.source.count(func(c *Stats) { c.Repeated++ })
		return nil
	}
	if f := p.sequence(i, &e); f != nil {
		return f
	}
	switch e.Kind {
	case market.KindSnapshot, market.KindUpdate, market.KindGap:
		p.books[i] = struct{}{}
	}
	if f := p.checkPrices(i, &e); f != nil {
		p.addLoss(i, lossOf(e.Kind), reasonBadLine)
		return f
	}
	e.Bids, e.Asks = p.copyLevels(e.Bids), p.copyLevels(e.Asks)
	p.add(entry{event: e, instrument: i})
	return nil
}

func (p *producer) define(in *market.Instrument) *wire.Fault {
	p.publish() // earlier lines belong to the old definition
	i, err := p.registry.define(p, *in)
	if errors.Is(err, errForeign) {
		return p.refuseForeign(in.ID)
	}
	if err != nil {
		return wire.NewFault(wire.BadField, "definition refused: "+err.Error())
	}
	fresh := p.known[i.id] == nil
	if p.use(i); fresh {
		p.number(i)
	}
	return nil
}

// refuseForeign counts a line about an instrument of another producer.
func (p *producer) refuseForeign(id market.InstrumentID) *wire.Fault {
	if n := p.count(&p.source.foreign, func(s *Stats) *int { return &s.Foreign }); n > 0 {
		p.log.Warn("lines rejected: the instrument belongs to another producer",
			"reason", wire.Forbidden, "instrument", id.String(), "count", n)
	}
	return wire.NewFault(wire.Forbidden, id.String()+" belongs to another producer")
}

// wholeMarket handles H and Gap of *|MARKET|*. The status of a market belongs to the first producer
// that sends one and has defined an instrument of it. A gap concerns the instruments of this
// producer.
func (p *producer) wholeMarket(l *wire.Line) *wire.Fault {
	v := p.registry.venue(l.ID.Market)
	if v == nil {
		return wire.NewFault(wire.UnknownInstrument, "no instrument of market "+l.ID.Market+" is defined: send an F line first")
	}
	e, own := l.Event, p.ofMarket(v.name)
	switch {
	case len(own) == 0 && e.Kind != market.KindStatus:
		return nil // a gap of nothing
	case len(own) == 0 && !p.registry.claimed(v):
		return wire.NewFault(wire.UnknownInstrument, "this producer has defined no instrument of market "+v.name+": send an F line first")
	case len(own) == 0, e.Kind == market.KindStatus && !p.registry.claim(v, p):
		return p.refuseForeign(l.ID)
	}
	p.joinMarket(v)
	if e.Kind == market.KindStatus {
		e.Handle = v.handle
		p.add(entry{event: e, venue: v})
		return nil
	}
	for _, i := range own {
		e.Handle = i.handle
		p.add(entry{event: e, instrument: i})
	}
	return nil
}

// ofMarket returns the instruments of the producer in a market.
func (p *producer) ofMarket(name string) (list []*instrument) {
	for _, i := range p.used {
		if i.venue.name == name {
			list = append(list, i)
		}
	}
	return list
}

func (p *producer) use(i *instrument) {
	if p.known[i.id] == nil {
		p.known[i.id] = i
		p.used = append(p.used, i)
	}
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
		return wire.NewFault(wire.BadField, "SQ must increase: "+strconv.FormatUint(e.Sequence, 10)+" came after "+strconv.FormatUint(last, 10))
	default:
		p.gap(i, e, last)
	}
	p.last[key] = e.Sequence
	return nil
}

func (p *producer) gap(i *instrument, e *market.Event, last uint64) {
	what := fmt.Sprintf("SQ of %s goes from %d to %d", i.id, last, e.Sequence)
	if e.Kind == market.KindUpdate {
		what += ": the book is stale until an O line with R:true"
	}
	p.addLoss(i, lossOf(e.Kind), reasonSequence)
	p.warn(reasonSequence, what)
	if n := p.count(&p.source.gaps, func(s *Stats) *int { return &s.Gaps }); n > 0 {
		p.log.Warn("producer skipped sequence numbers", "instrument", i.id.String(), "last", last, "sequence", e.Sequence, "count", n)
	}
}

// skip adds the gaps of a line that cannot be decoded. They are gaps of its instrument or of all
// instruments of its market. If the line names neither, every instrument of the producer gets a
// gap. A skipped definition causes no gap, and neither does a line that would have been ignored or
// rejected anyway.
func (p *producer) skip(l *wire.Line, f *wire.Fault) {
	kind := l.Event.Kind
	switch {
	case l.ID == market.InstrumentID{} && (kind != 0 || f.Reason != wire.BadInstrument):
		p.addLossOfAll()
	case kind == 0:
	case l.ID.IsPattern():
		for _, i := range p.ofMarket(l.ID.Market) {
			p.addLoss(i, lossOf(kind), reasonBadLine)
		}
	default:
		i := p.known[l.ID]
		if i == nil || i.noBook.Load() && lossOf(kind) == bookLost || !i.quotesFromFeed.Load() && kind == market.KindQuote {
			return
		}
		p.addLoss(i, lossOf(kind), reasonBadLine)
	}
}

// addLoss adds the gap of an instrument to the batch.
func (p *producer) addLoss(i *instrument, lost loss, reason string) {
	p.add(entry{event: market.Event{Reason: reason}, instrument: i, loss: lost})
}

// addLossOfAll adds a gap of every instrument of the producer to the batch. Consecutive unreadable
// lines cause one gap.
func (p *producer) addLossOfAll() {
	if n := len(p.batch); n == 0 || p.batch[n-1].loss != anyLost {
		p.add(entry{event: market.Event{Reason: reasonUnreadable}, loss: anyLost})
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

func (p *producer) add(e entry) {
	e.line = p.line
	p.batch = append(p.batch, e)
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

// publish publishes the batch and answers the lines that are rejected.
func (p *producer) publish() {
	if len(p.batch) == 0 {
		return
	}
	events := 0
	for k := range p.batch {
		if p.batch[k].loss == nothingLost {
			events++
		}
	}
	rejected := p.registry.publish(p)
	p.resumed.published(p.batch)
	if events <= len(rejected) {
		p.faults += p.earlierFaults
	}
	p.earlierFaults = 0
	for _, r := range rejected {
		if r.crossed != nil {
			if n := p.count(&p.source.crossed, func(s *Stats) *int { return &s.Crossed }); n > 0 {
				p.log.Warn("lines rejected: books crossed outside an auction", "instrument", r.crossed.id.String(), "count", n)
			}
		}
		p.fault(r.line, r.fault, r.refused)
	}
	clear(p.batch)
	p.batch, p.levels = p.batch[:0], p.levels[:0]
}
