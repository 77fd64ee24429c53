package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"sort"

	"github.com/ruedahq/rueda/internal/engine/journal/dayfile"
	"github.com/ruedahq/rueda/internal/engine/journal/record"
	"github.com/ruedahq/rueda/market"
)

// Errors of reads.
var (
	ErrNoBook  = errors.New("the book is unknown at that time")
	ErrNotKept = errors.New("the journal does not have these rows")
)

// Series is one sequence of N: the rows of one instrument and channel, and for bars one interval.
// Summaries have only Reference rows.
type Series struct {
	Instrument market.InstrumentID
	Channel    Channel
	Interval   Interval // of Bars; otherwise 0
}

// Range selects rows of a series. The zero Range selects all.
type Range struct {
	Epoch       string // "": all epochs, oldest first
	Date        string // day that rows are filed under, by publication: 2006-01-02; "": all
	AfterN, ToN uint64 // N above AfterN and at most ToN; ToN 0: no limit
	Start, End  int64  // Time from Start and before End; 0: no limit
	Reverse     bool   // newest first, epochs too
	SkipDamage  bool   // skip rows that cannot be read, which Found.Lost then returns; false: they are an error
}

// bounded replaces zero values by limits.
func (r Range) bounded() Range {
	if r.ToN == 0 {
		r.ToN = math.MaxUint64
	}
	if r.Start == 0 {
		r.Start = math.MinInt64
	}
	if r.End == 0 {
		r.End = math.MaxInt64
	}
	return r
}

func (r *Range) has(n uint64, time int64) bool {
	return n > r.AfterN && n <= r.ToN && time >= r.Start && (time < r.End || r.End == math.MaxInt64)
}

// mayHave reports whether rows with N and Time in these bounds may be in the range.
func (r *Range) mayHave(first, last uint64, least, most int64) bool {
	return last > r.AfterN && first <= r.ToN && most >= r.Start && (least < r.End || r.End == math.MaxInt64)
}

// errEnough ends a read when yield returns false.
var errEnough = errors.New("enough")

// seriesPart is where rows of a series are: in the index of a closed day, or in a segment.
type seriesPart struct {
	epoch  string
	day    *dayfile.File
	series dayfile.Series

	view   segmentView
	chunks []chunk
}

// Read yields the rows of a series in order, until yield returns false. It uses an index. Do not
// change or keep a row, whose memory is reused; its strings may be kept. Rows of books have no
// index: Read scans the segments, and not in reverse.
func (a *Archive) Read(ctx context.Context, s Series, r Range, yield func(epoch string, row *Row) bool) error {
	f, err := a.find(s, r.Epoch, r.Date)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Read(ctx, r, yield)
}

// Found is where the rows of a series were at the time of Find. It keeps closed days open: their
// rows can be read after the days are removed.
type Found struct {
	archive  *Archive
	series   Series
	parts    []seriesPart
	heldDays []*dayfile.File

	incomplete bool  // a read has found that rows are missing
	damage     error // of an index whose rows cannot be found; nil: none
}

// Close releases the days. Call it once, after all reads.
func (f *Found) Close() {
	for _, d := range f.heldDays {
		_ = d.Close() // only read from
	}
}

// Find finds the rows of a series, of one epoch or of all (""). Reads of the result take no lock
// that a writer waits for. Call Close unless there is an error.
func (a *Archive) Find(s Series, epoch string) (*Found, error) { return a.find(s, epoch, "") }

func (a *Archive) find(s Series, epoch, date string) (*Found, error) {
	f := &Found{archive: a, series: s}
	if s.Channel == Books {
		return f, nil
	}
	slot := record.Slot(s.Channel, s.Interval)
	if slot == record.NoSlot {
		return nil, fmt.Errorf("read series: channel %d, interval %d: %w", s.Channel, s.Interval, errors.ErrUnsupported)
	}
	if err := f.find(slot, epoch, date); err != nil {
		f.Close()
		if errors.Is(err, errRebuilt) {
			return a.find(s, epoch, date)
		}
		return nil, err
	}
	return f, nil
}

// FindDay finds the rows of a series that are filed under a day, as Find does.
func (a *Archive) FindDay(s Series, date string) (*Found, error) { return a.find(s, "", date) }

// Read yields the rows that were found, as Archive.Read does. The range's epoch must be among them.
// If a day that was not closed at the time of Find is removed before it is read, the error is
// ErrNotKept.
func (f *Found) Read(ctx context.Context, r Range, yield func(epoch string, row *Row) bool) error {
	if f.series.Channel == Books {
		return f.archive.readBooks(ctx, f.series, r, yield)
	}
	if f.damage != nil && !r.SkipDamage {
		return f.damage
	}
	parts := slices.DeleteFunc(slices.Clone(f.parts), func(p seriesPart) bool { return r.Epoch != "" && p.epoch != r.Epoch })
	if r.Reverse {
		slices.Reverse(parts)
	}
	r = r.bounded()
	reader := seriesReader{archive: f.archive, series: f.series, r: r, yield: yield}
	var err error
	for i := range parts {
		if err = reader.part(ctx, &parts[i]); err != nil {
			break
		}
	}
	if reader.incomplete {
		f.incomplete = true
	}
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// errRebuilt means that an index was damaged and is built again.
var errRebuilt = errors.New("the index of a day is built again")

// find finds the parts of the series, oldest first.
func (f *Found) find(slot int, epoch, date string) error {
	a := f.archive
	number, _ := a.table.lookup(f.series.Instrument)
	key := record.SeriesKey{Instrument: number, Slot: uint8(slot)}
	var list []seriesPart
	a.mu.RLock()
	for _, d := range a.days {
		if date != "" && dateOf(d.date) != date {
			continue
		}
		if d.index != nil {
			d.index.Hold()
			f.heldDays = append(f.heldDays, d.index)
			list = append(list, seriesPart{day: d.index})
			continue
		}
		for _, s := range d.segments {
			q := s.series[key]
			if q == nil || epoch != "" && s.epoch != epoch {
				continue
			}
			// Only the last chunk changes: copy it.
			n := len(q.chunks)
			last := q.chunks[n-1]
			list = append(list, seriesPart{epoch: s.epoch, view: s.view(), chunks: append(q.chunks[:n-1:n-1], last)})
		}
	}
	a.mu.RUnlock()
	for _, p := range list {
		d := p.day
		if d == nil {
			f.parts = append(f.parts, p)
			continue
		}
		found, err := d.Find(f.series.Instrument, slot)
		if a.rebuild(d, err) {
			return errRebuilt
		}
		if _, damaged := errors.AsType[*Damage](err); damaged {
			f.damage, f.incomplete = err, true
			continue
		}
		if err != nil {
			return err
		}
		slices.SortStableFunc(found, func(x, y dayfile.Series) int { return int(x.Epoch) - int(y.Epoch) })
		for _, s := range found {
			if e := d.Meta.Epochs[s.Epoch]; epoch == "" || e == epoch {
				f.parts = append(f.parts, seriesPart{epoch: e, day: d, series: s})
			}
		}
	}
	return nil
}

// seriesReader reads the parts of a series.
type seriesReader struct {
	archive *Archive
	series  Series
	r       Range
	yield   func(string, *Row) bool
	dec     record.Decoder
	raw     []byte
	rows    []byte
	order   []int // offsets of the records of a block, for reverse reads
	yielded int   // rows of the part
	skip    int   // rows of the part that were yielded before

	epoch      string // of the part
	last       uint64 // N of the row before, in this epoch; 0: none
	incomplete bool   // rows could not be read, or are not consecutive
	skips      bool   // SkipDamage, and the index of the day is damaged like its segments
	runs       *runs  // nil: not collected
}

func (s *seriesReader) yieldRow(epoch string, r *Row) error {
	if s.last > 0 && r.N != s.last+1 && r.N+1 != s.last {
		s.incomplete = true
	}
	if s.last = r.N; s.runs != nil {
		s.runs.stored(r.N, r.N)
	}
	switch {
	case !s.r.has(r.N, r.Time):
		return nil
	case s.skip > 0:
		s.skip--
		return nil
	}
	s.yielded++
	if s.yield(epoch, r) {
		return nil
	}
	return errEnough
}

// part reads one part of the series. If the index of its day is damaged, it reads the rest from the
// segments.
func (s *seriesReader) part(ctx context.Context, p *seriesPart) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.yielded = 0; s.epoch != p.epoch {
		s.epoch, s.last = p.epoch, 0
	}
	if p.day == nil {
		return s.segment(ctx, p)
	}
	err := s.day(ctx, p)
	if !s.archive.rebuild(p.day, err) {
		if s.skips || !s.damaged(err) {
			return err
		}
		s.skips, s.skip = true, s.yielded
		err = s.part(ctx, p)
		s.skips, s.skip = false, 0
		return err
	}
	again, err := s.archive.find(s.series, p.epoch, p.day.Meta.Date)
	if err != nil {
		return err
	}
	defer again.Close()
	if s.r.Reverse {
		slices.Reverse(again.parts)
	}
	s.skip = s.yielded
	for i := range again.parts {
		if err := s.part(ctx, &again.parts[i]); err != nil {
			return err
		}
	}
	s.skip = 0
	return nil
}

// damaged reports whether rows cannot be read, and are to be skipped.
func (s *seriesReader) damaged(err error) bool {
	_, damaged := errors.AsType[*Damage](err)
	if damaged = damaged && s.r.SkipDamage; damaged {
		s.incomplete = true
	}
	return damaged
}

// day reads from the index of a closed day.
func (s *seriesReader) day(ctx context.Context, p *seriesPart) error {
	e := &p.series
	if !s.r.mayHave(e.First, e.Last, e.Least, e.Most) {
		s.runs.stored(e.First, e.Last)
		return nil
	}
	blocks, err := p.day.Blocks(e)
	if s.skips && s.damaged(err) {
		s.runs.unreadable(e.Last)
		return nil
	}
	if err != nil {
		return err
	}
	for i := range blocks {
		if s.r.Reverse {
			i = len(blocks) - 1 - i
		}
		k := &blocks[i]
		if !s.r.mayHave(k.First, k.Last, k.Least, k.Most) {
			s.runs.stored(k.First, k.Last)
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		var err error
		if s.raw, s.rows, err = p.day.ReadBlock(k, s.raw, s.rows); s.skips && s.damaged(err) {
			s.runs.unreadable(k.Last)
			continue
		}
		if err != nil {
			return err
		}
		if err := s.block(p, k.At); err != nil {
			return err
		}
	}
	return nil
}

// block yields the rows of a decompressed block.
func (s *seriesReader) block(p *seriesPart, at int64) error {
	c := record.Cursor{File: p.day.Name, Salt: dayfile.Salt}
	c.Reset(0, s.rows)
	bad := func(err error) error {
		if d := (*Damage)(nil); errors.As(err, &d) {
			return &Damage{File: d.File, Offset: at, Reason: d.Reason}
		}
		return err
	}
	s.order = s.order[:0]
	for {
		rec, err := c.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return bad(err)
		}
		if rec[0] >= byte(record.NumKinds) {
			continue
		}
		if s.r.Reverse {
			s.order = append(s.order, c.Pos-len(rec))
			continue
		}
		row, err := c.Row(&s.dec, rec)
		if err != nil {
			return bad(err)
		}
		if err := s.yieldRow(p.epoch, row); err != nil {
			return err
		}
	}
	for _, pos := range slices.Backward(s.order) {
		row, ok := s.dec.Decode(s.rows[pos:pos+record.Size(s.rows[pos:])], c.Base)
		if !ok {
			return bad(c.Damage(0, record.ReasonRecord))
		}
		if err := s.yieldRow(p.epoch, row); err != nil {
			return err
		}
	}
	return nil
}

// segment reads rows by offset from a segment of a day that is not closed. It does not open the
// file if no chunk can have rows of the range.
func (s *seriesReader) segment(ctx context.Context, p *seriesPart) error {
	if !slices.ContainsFunc(p.chunks, func(c chunk) bool { return s.r.mayHave(c.first, c.last(), c.from, c.to) }) {
		for i := range p.chunks {
			s.runs.stored(p.chunks[i].first, p.chunks[i].last())
		}
		return nil
	}
	file, err := s.openSegment(p)
	if err != nil {
		if s.damaged(err) {
			s.runs.unreadable(p.chunks[len(p.chunks)-1].last())
			return nil
		}
		return err
	}
	defer func() { _ = file.Close() }() // only read from
	w := window{file: file, blocks: p.view.blocks, last: p.view.last, verifies: !p.view.verified, verified: -1}
	for i := range p.chunks {
		if s.r.Reverse {
			i = len(p.chunks) - 1 - i
		}
		c := &p.chunks[i]
		last := c.last()
		if !s.r.mayHave(c.first, last, c.from, c.to) {
			s.runs.stored(c.first, last)
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		from, to := 0, len(c.places)
		if s.r.AfterN >= c.first {
			from = int(s.r.AfterN - c.first + 1)
		}
		if last > s.r.ToN {
			to = int(s.r.ToN - c.first + 1)
		}
		for k := from; k < to; k++ {
			at := k
			if s.r.Reverse {
				at = to - 1 - (k - from)
			}
			row, err := s.row(&w, c, at, to)
			if s.damaged(err) {
				s.runs.unreadable(c.first + uint64(at))
				continue
			}
			if err != nil {
				return err
			}
			if err := s.yieldRow(p.epoch, row); err != nil {
				return err
			}
		}
	}
	return nil
}

// openSegment opens the segment of a part. The error is ErrNotKept if the journal has removed it,
// and a *Damage if it is missing or damaged.
func (s *seriesReader) openSegment(p *seriesPart) (*segmentFile, error) {
	file, err := s.archive.openSegment(p.view.segment)
	if err = notKept(err); errors.Is(err, ErrNotKept) && s.r.SkipDamage {
		if _, gone := s.archive.current(p.view.number); gone == nil {
			return nil, &Damage{File: p.view.name, Reason: record.ReasonMissing}
		}
	}
	if err == nil && file.reason != "" {
		err = errors.Join(&Damage{File: file.name, Reason: file.reason}, file.Close())
	}
	return file, err
}

// row reads a row of a chunk, and perhaps some of the following ones up to another row.
func (s *seriesReader) row(w *window, c *chunk, at, to int) (*Row, error) {
	rec, base, err := w.record(c.places[:to], at)
	if err != nil {
		return nil, err
	}
	row, ok := s.dec.Decode(rec, base)
	if !ok || row.N != c.first+uint64(at) {
		return nil, w.damage(int64(c.places[at]) * 8)
	}
	return row, nil
}

// window is a part of a segment from which single records are read.
type window struct {
	file   *segmentFile
	blocks []block // shared; without the last one
	last   block
	block  int
	buf    []byte
	from   int64 // offset of buf

	verifies bool // verify a block before its first record is used
	verified int  // block that was verified last
}

const (
	windowLeast = 512      // fits almost every record
	windowMost  = 32 << 10 // read if the next rows are close
	windowRows  = 6        // number of rows that makes it worthwhile
)

// record returns the record at an offset of a list, with its base.
func (w *window) record(places []uint32, i int) ([]byte, record.Base, error) {
	at := int64(places[i]) * 8
	b := w.bytesAt(at, record.HeadSize+8)
	if b == nil {
		size := int64(windowLeast)
		if near := i + windowRows; near < len(places) && int64(places[near])*8-at < windowMost {
			size = windowMost
		}
		if err := w.read(at, size); err != nil {
			return nil, record.Base{}, err
		}
		if b = w.bytesAt(at, record.HeadSize); b == nil {
			return nil, record.Base{}, w.damage(at)
		}
	}
	n := int64(record.WantedSize(b))
	if b = w.bytesAt(at, n); b == nil {
		if err := w.read(at, n); err != nil {
			return nil, record.Base{}, err
		}
		if b = w.bytesAt(at, n); b == nil {
			return nil, record.Base{}, w.damage(at)
		}
	}
	if n < record.HeadSize {
		return nil, record.Base{}, w.damage(at)
	}
	// Rows are in order, so that the block is mostly the same or the next one.
	k := w.block
	if at < w.blockAt(k).offset || k < len(w.blocks) && at >= w.blockAt(k+1).offset {
		k = max(0, sort.Search(len(w.blocks)+1, func(i int) bool { return w.blockAt(i).offset > at })-1)
		w.block = k
	}
	if w.verifies && k != w.verified {
		if err := w.verify(k); err != nil {
			return nil, record.Base{}, err
		}
	}
	return b[:n], w.blockAt(k).base, nil
}

// blockAt returns a block of the segment.
func (w *window) blockAt(i int) *block {
	if i == len(w.blocks) {
		return &w.last
	}
	return &w.blocks[i]
}

// verify checks all frames of a block.
func (w *window) verify(k int) error {
	c := record.Cursor{File: w.file.name, Salt: w.file.salt}
	block := w.blockAt(k)
	buf := make([]byte, block.bytes)
	if _, err := w.file.ReadAt(buf, block.offset); err != nil {
		return shortRead(w.file.name, block.offset, err)
	}
	for c.Reset(block.offset, buf); ; c.Pos = c.End {
		switch err := c.Enter(); {
		case errors.Is(err, io.EOF):
			w.verified = k
			return nil
		case err != nil:
			return err
		}
	}
}

func (w *window) damage(at int64) error {
	return &Damage{File: w.file.name, Offset: at, Reason: record.ReasonRecord}
}

// bytesAt returns the bytes of the window from an offset; nil if there are less than n.
func (w *window) bytesAt(at, n int64) []byte {
	if at < w.from || at-w.from > int64(len(w.buf))-n {
		return nil
	}
	return w.buf[at-w.from:]
}

func (w *window) read(at, n int64) error {
	n = max(0, min(n, w.file.size-at))
	w.buf, w.from = slices.Grow(w.buf[:0], int(n))[:n], at
	if _, err := w.file.ReadAt(w.buf, at); err != nil {
		w.buf = w.buf[:0]
		return shortRead(w.file.name, at, err)
	}
	return nil
}

// shortRead returns a *Damage if the file has become shorter.
func shortRead(name string, at int64, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &Damage{File: name, Offset: at, Reason: record.ReasonMissing}
	}
	return fmt.Errorf("read segment: %w", err)
}

// notKept adds ErrNotKept to errors about files that were removed.
func notKept(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrClosed) {
		return fmt.Errorf("%w: %w", ErrNotKept, err)
	}
	return err
}

// bookKinds are the kinds of rows in a series of Books.
const bookKinds KindSet = 1<<BookUpdate | 1<<BookState | 1<<BookLost

func (a *Archive) readBooks(ctx context.Context, s Series, r Range, yield func(string, *Row) bool) error {
	if r.Reverse {
		return fmt.Errorf("read books in reverse: %w", errors.ErrUnsupported)
	}
	number, ok := a.table.lookup(s.Instrument)
	if !ok {
		return nil
	}
	r = r.bounded()
	enough := false
	for _, epoch := range a.Epochs() {
		if enough || r.Epoch != "" && r.Epoch != epoch {
			continue
		}
		err := a.Scan(ctx, ScanStart{Epoch: epoch, Date: r.Date}, func(n uint32) bool { return n == number }, bookKinds, func(row *Row) bool {
			enough = r.has(row.N, row.Time) && !yield(epoch, row)
			return !enough
		})
		if err != nil {
			return err
		}
	}
	return nil
}
