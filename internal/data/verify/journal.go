package verify

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
	"github.com/ruedahq/rueda/wire/stream"
)

// Journal verifies a journal, a folder or one segment, from its oldest row to its newest. It also
// computes a hash of the content of the rows (instrument, kind, N, T and figures) in the order of
// the stream, over all epochs. The hash does not include positions and times of publication, so two
// runs of one seed have the same hash. Journal calls progress from time to time with the number of
// rows read.
func Journal(ctx context.Context, path string, findings int, progress func(rows int64)) (r *Report, err error) {
	in, err := journal.OpenReader(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	config := Config{Findings: findings, Ordered: true, Channels: []string{"trades", "quotes", "order_book", "status", "bars"}}
	for i := range intervals {
		config.Intervals = append(config.Intervals, intervals[i].word)
	}
	x := &journalWalk{
		v: New(config), in: in, sum: sha256.New(),
		ids: map[uint32]string{}, progress: progress,
	}
	for _, d := range in.Damage() {
		x.v.judged(Message)
		x.v.wrong(Message, nil, Position{}, "%v", &d)
	}
	if err := x.noteEmptyBlocks(ctx); err != nil {
		return nil, err
	}
	for _, epoch := range in.Epochs() {
		x.begin(epoch)
		err := in.Scan(ctx, journal.ScanStart{Epoch: epoch, Damaged: x.damaged}, func(uint32) bool { return true }, journal.KindSet(math.MaxUint32), func(row *journal.Row) bool {
			x.row(row)
			return true
		})
		x.settle()
		if err == nil {
			err = x.noteLost(ctx, epoch)
		}
		if err != nil {
			return nil, fmt.Errorf("verify journal: %w", err)
		}
	}
	if x.lost > lostNotes {
		x.v.Note("%d further ranges of rows are missing", x.lost-lostNotes)
	}
	report := x.v.Report().Describe(path, "journal")
	report.Unit = "row"
	report.Figures = append(report.Figures,
		Figure{"rows", uint64(x.rows)}, Figure{"epochs", uint64(len(in.Epochs()))}, Figure{"days", uint64(len(in.Days()))}, Figure{"gaps", x.gaps})
	report.Hash = hex.EncodeToString(x.sum.Sum(nil))
	return report, nil
}

// damaged reports damage that was not known when the journal was opened.
func (x *journalWalk) damaged(err error) {
	if d, ok := errors.AsType[*journal.Damage](err); ok && slices.Contains(x.in.Damage(), *d) {
		return
	}
	x.v.judged(Message)
	x.v.wrong(Message, nil, Position{Line: x.rows}, "%v", err)
}

// lostNotes is the number of ranges of missing rows that are named.
const lostNotes = 100

// noteLost names the rows of an epoch that are missing, by N and event time.
func (x *journalWalk) noteLost(ctx context.Context, epoch string) error {
	if !x.in.Incomplete() {
		return nil
	}
	for n := range x.in.Numbers() {
		def, ok := x.in.Instrument(n + 1)
		if !ok {
			continue
		}
		id := def.ID
		list := []journal.Series{{Instrument: id, Channel: journal.Trades}, {Instrument: id, Channel: journal.Statuses}, {Instrument: id, Channel: journal.Quotes}}
		for i := range market.NumIntervals {
			list = append(list, journal.Series{Instrument: id, Channel: journal.Bars, Interval: i})
		}
		for i, s := range list {
			found, err := x.in.Find(s, epoch)
			if err != nil {
				return err
			}
			lost, err := found.Lost(ctx, journal.Range{Epoch: epoch})
			found.Close()
			if err != nil {
				return err
			}
			channel := [...]string{"trades", "status", "quotes", "bars " + s.Interval.String()}[min(i, 3)]
			for _, l := range lost {
				x.noteRange(channel, id, &l)
			}
		}
	}
	return nil
}

// noteRange names a range of missing rows.
func (x *journalWalk) noteRange(channel string, id market.InstrumentID, l *journal.Lost) {
	if x.lost++; x.lost > lostNotes {
		return
	}
	text := missing(l.From, l.To)
	if l.To == 0 {
		text = "after N " + strconv.FormatUint(l.From-1, 10) + " rows may be missing"
	}
	if l.Start != 0 {
		text += ", after " + string(wire.AppendTime(nil, l.Start))
	}
	if l.End != 0 {
		text += ", before " + string(wire.AppendTime(nil, l.End))
	}
	x.v.Note("epoch %s: %s of %s: %s", l.Epoch, channel, id, text)
}

// noteEmptyBlocks names the days of which earlier programs may have answered rows wrongly.
func (x *journalWalk) noteEmptyBlocks(ctx context.Context) error {
	for _, d := range x.in.Days() {
		n, err := x.in.EmptyBlocks(ctx, d.Date)
		if damage := (*journal.Damage)(nil); err != nil && !errors.As(err, &damage) { // damage is reported below
			return fmt.Errorf("verify journal: %w", err)
		}
		if n > 0 {
			x.v.Note("%s: builds of 0.2.0-dev from 23 to 29 November 2026 may have answered rows of this day with wrong times and positions (%d blocks). The stored rows are right: see docs/install.md", d.Date, n)
		}
	}
	return nil
}

// IsJournal reports whether a path is a journal: a folder with days, or a segment.
func IsJournal(path string) (bool, error) {
	info, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	if info.IsDir() {
		days, err := filepath.Glob(filepath.Join(path, "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]"))
		return len(days) > 0, err
	}
	file, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer func() { _ = file.Close() }() // opened for reading only
	begin := make([]byte, 8)
	n, err := io.ReadFull(file, begin)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, fmt.Errorf("read %s: %w", path, err)
	}
	// A segment, plain or compressed.
	word := string(begin[:n])
	return word == "RUEDAJRN" || word == "RUEDAJRZ", nil
}

// journalWalk is one pass over a journal.
type journalWalk struct {
	v        *Verifier
	in       *journal.Reader
	sum      hash.Hash
	ids      map[uint32]string
	progress func(int64)
	rows     int64
	gaps     uint64
	lost     int // ranges of missing rows
	held     []checkpointRow
	message  stream.Message
	scratch  []byte
}

// checkpointRow is a row of a checkpoint that is held until it is known what follows. In older
// files, the checkpoint at the end of a gap precedes the gap record. It must not be compared with
// the rows before it.
type checkpointRow struct {
	in  *instrument
	row journal.Row
}

// begin starts an epoch.
func (x *journalWalk) begin(epoch string) {
	if x.v.epoch != "" {
		x.v.Note("epoch %s begins after row %d", epoch, x.rows)
		for _, in := range x.v.instruments {
			in.reset()
		}
	}
	x.v.epoch = epoch
}

// id returns the identifier of an instrument number, "" if there is none.
func (x *journalWalk) id(number uint32) string {
	id, ok := x.ids[number]
	if !ok {
		if def, known := x.in.Instrument(number); known {
			id = def.ID.String()
			if !def.ID.IsPattern() {
				x.v.Define([]market.Instrument{def})
			}
		}
		x.ids[number] = id
	}
	return id
}

// row checks a row.
func (x *journalWalk) row(r *journal.Row) {
	v := x.v
	if r.Kind == journal.Gap {
		x.gap(r)
		return
	}
	if !r.Checkpoint {
		x.settle()
	}
	id := x.id(r.Instrument)
	if id == "" {
		v.judged(Message)
		v.wrong(Message, nil, Position{Line: x.rows, N: r.N, Time: r.Time}, "a row of instrument %d, which is not defined", r.Instrument)
		return
	}
	in := v.instrument(id)
	if in == nil {
		v.unjudged(Message)
		return
	}
	if r.Checkpoint {
		x.hold(in, r)
		return
	}
	x.rows++
	if x.progress != nil && x.rows%65536 == 0 {
		x.progress(x.rows)
	}
	x.scratch = appendRow(x.scratch[:0], id, r)
	x.sum.Write(x.scratch)
	v.judged(Message)
	v.published = r.At
	p := Position{Line: x.rows, N: r.N, Time: r.Time}
	if r.Kind == journal.BookLost {
		in.markStale()
		return
	}
	if m := x.convert(r); m != nil {
		v.counts[typeOf(m)]++
		in.message(p, m)
		// A status may have the time of the listing, and the clock of a recording that is played
		// repeatedly restarts before the last bars of a round.
		if r.Kind != journal.Bar && r.Kind != journal.Status {
			in.publication(p, r.At)
		}
	}
}

// publication checks that the rows of a virtual clock are published in the order of its time. The
// clock of a machine may be set back.
func (in *instrument) publication(p Position, at int64) {
	if in.def == nil || !in.def.VirtualClock {
		return
	}
	in.v.judged(Time)
	if at < in.published {
		in.v.wrong(Time, in, p, "published at %s, before the row before it", clock(at))
	}
	in.published = max(in.published, at)
}

// hold holds a row of a checkpoint until it is known what follows.
func (x *journalWalk) hold(in *instrument, r *journal.Row) {
	switch r.Kind {
	case journal.Status, journal.Numbers, journal.BookState, journal.BookLost:
		row := *r
		row.TradeDetails, row.Bids, row.Asks = market.TradeDetails{}, slices.Clone(r.Bids), slices.Clone(r.Asks)
		x.held = append(x.held, checkpointRow{in, row})
	}
}

// settle checks the held checkpoint, which no gap follows.
func (x *journalWalk) settle() {
	x.each((*instrument).checkpoint)
}

// each passes the held rows to their instruments.
func (x *journalWalk) each(do func(*instrument, Position, *journal.Row)) {
	for i := range x.held {
		s := &x.held[i]
		do(s.in, Position{Line: x.rows, N: s.row.N, Time: s.row.Time}, &s.row)
	}
	clear(x.held) // books are large
	x.held = x.held[:0]
}

// gap handles a gap, at which rows were lost. What follows is checked starting from the checkpoint
// before the gap record.
func (x *journalWalk) gap(r *journal.Row) {
	if r.CheckpointFollows {
		x.settle()
	}
	x.gaps++
	x.v.Note("after row %d, rows up to position %d were lost: %s", x.rows, r.Position, r.Reason)
	for _, in := range x.v.instruments {
		in.reset()
		in.newest = r.At              // trades before may be missing, so bars cannot be judged
		in.tops.log = in.tops.log[:0] // nor books by earlier quotes
	}
	x.each((*instrument).restore)
}

// convert converts a row to the message it was made from, or returns nil if there is none.
func (x *journalWalk) convert(r *journal.Row) *stream.Message {
	m := &x.message
	*m = stream.Message{N: r.N, Time: r.Time, Latency: r.Latency}
	switch r.Kind {
	case journal.Trade, journal.Cancel, journal.Correct:
		m.Kind = stream.Trade
		m.Trade = wire.Trade{
			Kind: [...]market.Kind{journal.Trade: market.KindTrade, journal.Cancel: market.KindCancel, journal.Correct: market.KindCorrect}[r.Kind],
			Side: r.Side, Price: r.Price, Size: r.Size, OldPrice: r.OldPrice, OldSize: r.OldSize, ID: r.ID, RefN: r.RefN,
			TradeDetails: r.TradeDetails,
		}
	case journal.Status:
		m.Kind, m.Phase, m.Reason = stream.Status, r.Phase, r.Reason
	case journal.Quote:
		m.Kind, m.Bids, m.Asks = stream.Quote, r.Bids, r.Asks
	case journal.Bar:
		m.Kind, m.Bar = stream.Bar, barOf(r)
	case journal.BookUpdate, journal.BookState:
		m.Kind, m.Bids, m.Asks, m.Snapshot = stream.Book, r.Bids, r.Asks, r.Kind == journal.BookState
		m.Previous = r.N - 1 // rows have every change
	default:
		return nil
	}
	return m
}

func barOf(r *journal.Row) wire.Bar {
	b := &r.Bar
	return wire.Bar{
		Interval: b.Interval, Revised: b.Revised, Open: b.First, High: b.High, Low: b.Low, Close: b.Last,
		Volume: b.Volume, Value: b.Value, Trades: b.Trades,
	}
}

// checkpoint applies the state at the beginning of a segment to an instrument without earlier rows,
// and otherwise compares it with them.
func (in *instrument) checkpoint(p Position, r *journal.Row) {
	switch r.Kind {
	case journal.Status:
		if len(in.phases) == 0 {
			in.status(p, r.Phase)
		}
	case journal.Numbers:
		in.numbers(p, &r.Counts)
	case journal.BookState:
		if !in.known {
			in.setBook(p, r.Bids, r.Asks)
			in.tops.markGap()
			return
		}
		in.v.judged(Chain)
		if !in.holds(r.Bids, r.Asks) {
			in.v.wrong(Chain, in, p, "the book of the checkpoint differs from the rows before it")
			in.setBook(p, r.Bids, r.Asks)
			in.tops.markGap()
		}
	}
}

// restore applies the state at the end of a gap. There may be more than one checkpoint, if the disk
// filled up again during the first; the last one counts.
func (in *instrument) restore(p Position, r *journal.Row) {
	switch r.Kind {
	case journal.Status:
		p.Time = min(p.Time, in.newest) // on a virtual clock it has another time
		in.status(p, r.Phase)
	case journal.Numbers:
		in.resetSequences()
		in.numbers(p, &r.Counts)
	case journal.BookState:
		in.setBook(p, r.Bids, r.Asks)
		in.tops.markGap()
	case journal.BookLost:
		in.markStale()
	}
}

// numbers applies or compares the sequence numbers of a checkpoint.
func (in *instrument) numbers(p Position, c *journal.Counts) {
	for _, x := range [...]struct {
		s       *sequence
		channel journal.Channel
	}{{&in.trades, journal.Trades}, {&in.statuses, journal.Statuses}, {&in.quotes, journal.Quotes}, {&in.books, journal.Books}} {
		n := c.N[x.channel]
		if x.s.n != 0 && x.s.n != n {
			in.v.judged(Sequence)
			in.v.wrong(Sequence, in, p, "a checkpoint counts to %d where the rows count to %d", n, x.s.n)
		}
		x.s.n = n
	}
	for i := range intervals {
		if n := c.Bars[i]; n > 0 && in.bars[intervals[i].word] == nil {
			in.bars[intervals[i].word] = &sequence{n: n}
		}
	}
}

// holds reports whether the book has exactly these levels.
func (in *instrument) holds(bids, asks []market.Level) bool {
	return slices.Equal(in.book.Append(nil, market.Buy, 0), bids) && slices.Equal(in.book.Append(nil, market.Sell, 0), asks)
}

// appendRow encodes the content of a row. Each text and list is preceded by its length, so that the
// encoding is unambiguous.
func appendRow(b []byte, id string, r *journal.Row) []byte {
	b = appendText(b, id)
	b = append(b, byte(r.Kind), byte(r.Side), byte(r.Phase), byte(r.Bar.Interval))
	for _, v := range [...]int64{
		r.Time, int64(r.Price), int64(r.Size), int64(r.OldPrice), int64(r.OldSize), r.Until,
		int64(r.Bar.First), int64(r.Bar.High), int64(r.Bar.Low), int64(r.Bar.Last),
	} {
		b = binary.AppendVarint(b, v)
	}
	revised := uint64(0)
	if r.Bar.Revised {
		revised = 1
	}
	for _, v := range [...]uint64{
		r.N, r.RefN, r.Bar.Volume.Hi, r.Bar.Volume.Lo, r.Bar.Value.Hi, r.Bar.Value.Lo, uint64(r.Bar.Trades), revised,
	} {
		b = binary.AppendUvarint(b, v)
	}
	b = appendText(appendText(b, r.ID), r.Reason)
	b = r.TradeDetails.AppendBinary(b)
	for _, side := range [2][]market.Level{r.Bids, r.Asks} {
		b = binary.AppendUvarint(b, uint64(len(side)))
		for _, l := range side {
			b = binary.AppendVarint(b, int64(l.Price))
			b = binary.AppendVarint(b, int64(l.Size))
			b = binary.AppendUvarint(b, uint64(l.Orders))
		}
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
