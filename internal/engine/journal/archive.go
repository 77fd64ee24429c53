package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"

	"github.com/ruedahq/rueda/internal/engine/journal/dayfile"
	"github.com/ruedahq/rueda/internal/engine/journal/disk"
	"github.com/ruedahq/rueda/internal/engine/journal/record"
	"github.com/ruedahq/rueda/internal/engine/journal/state"
	"github.com/ruedahq/rueda/market"
)

// Archive is the reading side of a journal. Its methods may be called by any goroutine.
type Archive struct {
	table   *table
	unpack  *zstd.Decoder
	sys     disk.System // not used by a Reader, which changes nothing
	log     *slog.Logger
	minSeqs atomic.Pointer[minSeqs]
	earlier atomic.Pointer[EarlierDays] // see Earlier; nil: none
	oldest  atomic.Pointer[epochBegin]  // of the oldest epoch, if it lacks rows
	lost    losses                      // rows lost while the journal is suspended
	whole   bool                        // see Whole
	reading reading                     // used by load only

	rebuilding sync.Mutex // held while the index of a day is built again

	mu    sync.RWMutex // guards what follows, and the last segment's index
	days  []*day       // oldest first
	epoch string

	journal  [16]byte // id of the journal of the segments
	highest  uint32   // greatest number of a segment, including excluded ones
	excluded []Damage // files that are not part of the journal
}

// day is a UTC date.
type day struct {
	date     int32
	folder   string
	bytes    int64         // on disk, without the active segment
	index    *dayfile.File // nil: the day is not closed
	kept     bool          // the index is old, and the segments are damaged
	segments []*segment
}

// segmentView is an immutable view of a segment for readers.
type segmentView struct {
	*segment
	sum      summary
	end      int64
	verified bool
	blocks   []block
	last     block // the last of the blocks, which blocks does not contain
	gaps     []dayfile.Gap
	index    *dayfile.File // of a closed day: has the spans
}

// newArchive returns an empty archive. All goroutines share its decoder.
func newArchive() (*Archive, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(record.MaxUnpacked), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fmt.Errorf("make decompressor: %w", err)
	}
	return &Archive{table: newTable(), unpack: d, log: slog.New(slog.DiscardHandler)}, nil
}

// Epoch returns the newest epoch. A Journal writes this epoch.
func (a *Archive) Epoch() string {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.epoch
}

// Epochs returns all stored epochs, oldest first.
func (a *Archive) Epochs() []string {
	a.mu.RLock()
	defer a.mu.RUnlock()
	var list []string
	for _, d := range a.days {
		for _, s := range d.segments {
			if !slices.Contains(list, s.epoch) {
				list = append(list, s.epoch)
			}
		}
	}
	return list
}

// Instrument returns the newest definition of a number.
func (a *Archive) Instrument(n uint32) (market.Instrument, bool) { return a.table.get(n) }

// Lookup returns the number of an identifier.
func (a *Archive) Lookup(id market.InstrumentID) (uint32, bool) { return a.table.lookup(id) }

// Whole reports whether a Journal had all rows, when it was opened, that were streamed before.
func (a *Archive) Whole() bool { return a.whole }

// Numbers returns the greatest number of an instrument.
func (a *Archive) Numbers() uint32 { return a.table.last() }

// Recorded returns the numbers of instruments that have stored rows, of any epoch: newest day
// first, and rising within a day. BookLost does not count: a feed that ends causes one of each
// instrument of its markets. Nor do rows that were written since the journal was opened. If earlier
// days are to be added, which may have rows of all instruments, the others follow. An index without
// Books lacks instruments that have only rows of books.
func (a *Archive) Recorded() (list []uint32) {
	var seen record.Set
	add := func(n uint32) {
		if _, ok := a.Instrument(n); ok && !seen.Has(n) {
			seen.Add(n)
			list = append(list, n)
		}
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	for _, d := range slices.Backward(a.days) {
		from := len(list)
		if d.index != nil {
			for n := range d.index.Recorded.All() {
				add(n)
			}
		}
		for _, s := range d.segments {
			for n := range s.recorded.All() {
				add(n)
			}
		}
		slices.Sort(list[from:])
	}
	if len(a.Earlier()) > 0 {
		for n := range a.Numbers() {
			add(n + 1)
		}
	}
	return list
}

// Day is a UTC date of the journal.
type Day struct {
	Date     string // 2006-01-02
	Closed   bool   // complete; sorted by series
	Rows     uint64 // messages, without checkpoints
	Bytes    int64  // on disk
	From, To int64  // At of the first and last row
	Latest   int64  // greatest Time of a row
	Complete int64  // At from which no rows are missing: From, or the end of the last gap
	Hash     string // of the rows of a closed day, for ETags; equal rows have equal hashes in all journals
}

// Days returns the dates of the journal, oldest first.
func (a *Archive) Days() []Day {
	a.mu.RLock()
	defer a.mu.RUnlock()
	list := make([]Day, 0, len(a.days))
	for _, d := range a.days {
		list = append(list, d.info())
	}
	return list
}

// info returns the description of a day.
func (d *day) info() Day {
	t := Day{Date: dateOf(d.date), Bytes: d.bytes}
	sum, complete := newSummary(), int64(math.MinInt64)
	for _, s := range d.segments {
		sum.join(s.summary)
		complete = max(complete, s.complete())
		if d.index == nil {
			t.Bytes += s.end
		}
	}
	t.Rows = sum.rows
	if sum.rows > 0 {
		t.From, t.To, t.Latest = sum.from, sum.to, sum.most
		t.Complete = max(complete, t.From)
	}
	if d.index != nil {
		t.Closed, t.Hash = true, d.index.Meta.Hash
	}
	return t
}

// complete returns the At after which no rows of the segment are missing.
func (s *segment) complete() int64 {
	at := int64(math.MinInt64)
	for _, h := range s.gaps {
		at = max(at, h.At)
	}
	if s.missing > 0 {
		at = max(at, s.from)
	}
	if s.resumed > at {
		at = s.resumed
	}
	return at
}

// afterDamage sets resumed, the At after which the segment is complete.
func (s *segment) afterDamage() {
	s.resumed = math.MinInt64
	for _, d := range s.damage {
		at := s.to
		for _, b := range s.blocks {
			if b.offset >= d.Offset+d.Bytes {
				at = b.base.At
				break
			}
		}
		s.resumed = max(s.resumed, at)
	}
}

// views returns the current segments of an epoch ("": the newest), oldest first.
func (a *Archive) views(epoch string) []segmentView {
	return a.selectViews(func(_ *day, s *segment) bool { return s.epoch == epoch || epoch == "" && s.epoch == a.epoch })
}

// allViews returns the segments of all epochs, oldest first.
func (a *Archive) allViews() []segmentView {
	return a.selectViews(func(*day, *segment) bool { return true })
}

// selectViews returns the current segments that want accepts, oldest first.
func (a *Archive) selectViews(want func(*day, *segment) bool) (list []segmentView) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	for _, d := range a.days {
		for _, s := range d.segments {
			if want(d, s) {
				v := s.view()
				v.index = d.index
				list = append(list, v)
			}
		}
	}
	return list
}

// view returns the current state of a segment. The caller holds Archive.mu.
func (s *segment) view() segmentView {
	v := segmentView{segment: s, sum: s.summary, end: s.end, gaps: s.gaps, verified: s.verified}
	if n := len(s.blocks); n > 0 {
		v.blocks, v.last = s.blocks[:n-1:n-1], s.blocks[n-1]
	}
	return v
}

// spans returns the spans of a segment.
func (v *segmentView) spans() ([]record.Span, error) {
	if v.index != nil {
		return v.index.Spans(v.number)
	}
	if v.last.bytes == 0 && len(v.blocks) == 0 {
		return nil, nil
	}
	return spansOf(append(v.blocks, v.last)), nil
}

// load reads a folder. With keep it removes the remains of a crash.
func (a *Archive) load(ctx context.Context, folder string, keep bool) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("read journal folder: %w", err)
	}
	if a.reading.report != nil {
		var folders []string
		for _, e := range entries {
			if _, ok := parseDate(e.Name()); ok && e.IsDir() {
				folders = append(folders, filepath.Join(folder, e.Name()))
			}
		}
		if err := a.reading.begin(folders); err != nil {
			return fmt.Errorf("read folders of days: %w", err)
		}
	}
	for _, e := range entries { // sorted by name, and so by date
		date, ok := parseDate(e.Name())
		if !ok || !e.IsDir() {
			continue
		}
		d := &day{date: date, folder: filepath.Join(folder, e.Name())}
		if keep {
			if err := d.cleanUp(&a.sys); err != nil {
				return err
			}
		}
		if err := a.loadDay(ctx, d); err != nil {
			return err
		}
		if len(d.segments) > 0 {
			a.days = append(a.days, d)
		}
	}
	return a.dropDuplicates()
}

// cleanUp removes incomplete files, segments that also exist compressed, and segments without a
// header.
func (d *day) cleanUp(sys *disk.System) error {
	entries, err := os.ReadDir(d.folder)
	if err != nil {
		return fmt.Errorf("read folder of a day: %w", err)
	}
	for _, e := range entries {
		name := e.Name()
		_, packed, ok := parseSegmentName(name)
		obsolete := ""
		if ok && packed {
			obsolete = strings.TrimSuffix(name, packedEnding) + segmentEnding
		}
		if strings.HasSuffix(name, disk.TempEnding) || ok && !packed && isEmpty(e) {
			obsolete = name
		}
		if obsolete == "" {
			continue
		}
		if err := sys.Remove(filepath.Join(d.folder, obsolete)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove files of a crash: %w", err)
		}
	}
	return nil
}

// isEmpty reports whether a segment has no complete header.
func isEmpty(e fs.DirEntry) bool {
	info, err := e.Info()
	return err == nil && info.Mode().IsRegular() && info.Size() < record.HeaderSize
}

// loadDay reads the index of a closed day, or the segments of another day.
func (a *Archive) loadDay(ctx context.Context, d *day) error {
	index, err := dayfile.Open(filepath.Join(d.folder, dayfile.Name), a.unpack)
	if err == nil {
		if err = a.takeDay(d, index); err == nil {
			return nil
		}
		err = errors.Join(err, index.Close())
	}
	if !errors.Is(err, fs.ErrNotExist) {
		a.reportIndex(err) // the segments have all rows
	}
	entries, err := os.ReadDir(d.folder)
	if err != nil {
		return fmt.Errorf("read folder of a day: %w", err)
	}
	for _, e := range entries {
		number, _, ok := parseSegmentName(e.Name())
		if !ok || e.IsDir() || isEmpty(e) {
			continue
		}
		a.highest = max(a.highest, number)
		s := &segment{folder: d.folder, name: strings.TrimSuffix(strings.TrimSuffix(e.Name(), "z"), segmentEnding)}
		s.packed = strings.HasSuffix(e.Name(), packedEnding)
		a.reading.size = 0
		if info, err := e.Info(); err == nil {
			a.reading.size = info.Size()
		}
		if err := a.inspect(ctx, s, a.table); err != nil {
			return err
		}
		a.reading.done += a.reading.size
		a.reading.size = 0
		a.reading.part(0, 0)
		if len(s.damage) > 0 && s.damage[0].Reason == record.ReasonVersion {
			return fmt.Errorf("segment %s: %w", s.path(s.packed), state.ErrNewer)
		}
		if s.header == (header{}) {
			a.excluded = append(a.excluded, s.damage...)
			continue
		}
		d.segments = append(d.segments, s)
	}
	return nil
}

// takeDay uses the index of a closed day.
func (a *Archive) takeDay(d *day, index *dayfile.File) error {
	for _, def := range index.Meta.Definitions {
		if err := a.table.add(def.Number, def.Text); err != nil {
			return err
		}
		if def.RealClock {
			a.table.markRealClock(def.Number)
		}
	}
	index.Meta.Definitions = nil
	d.index, d.segments, d.bytes = index, nil, index.Size
	for _, s := range segmentsOf(&index.Meta) {
		s.folder = d.folder
		size, packed, err := s.stat()
		if err != nil {
			d.index, d.segments, d.bytes = nil, nil, 0
			return err
		}
		s.packed = packed
		d.bytes += size
		d.segments = append(d.segments, s)
	}
	return nil
}

// stat finds the file of a segment in either form.
func (s *segment) stat() (size int64, packed bool, err error) {
	for _, packed := range []bool{true, false} {
		info, err := os.Stat(s.path(packed))
		if err == nil {
			return info.Size(), packed, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return 0, false, fmt.Errorf("find segment: %w", err)
		}
	}
	return 0, false, fmt.Errorf("find segment: %w", &Damage{File: s.path(false), Reason: record.ReasonMissing})
}

// inspect reads the whole file of a segment. It adds its definitions to a table.
func (a *Archive) inspect(ctx context.Context, s *segment, t *table) error {
	f, err := a.openSegment(s)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read from
	if f.reason != "" {
		s.damage = append(s.damage, Damage{File: f.name, Reason: f.reason})
		return nil
	}
	s.header, s.packed = f.header, f.packed
	x := inspector{seg: s, table: t, file: f, size: f.size, part: a.reading.part}
	if err := x.run(ctx); err != nil {
		return err
	}
	s.torn = x.torn
	s.verified = len(s.damage) == 0
	s.afterDamage()
	return nil
}

// dropDuplicates excludes segments of other journals and those whose number occurs twice. It uses
// the contents of files, not their names.
func (a *Archive) dropDuplicates() error {
	var all []*segment
	for _, d := range a.days {
		all = append(all, d.segments...)
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(x, y *segment) int { return cmp.Compare(x.number, y.number) })
	owner := a.journal
	if owner == [16]byte{} {
		owner = mostCommon(all)
	}
	taken := map[uint32]bool{}
	// Segments with the right name come first.
	for _, right := range []bool{true, false} {
		for _, s := range all {
			if (s.name == segmentName(s.number)) != right {
				continue
			}
			switch {
			case s.journal != owner:
				s.excluded = record.ReasonForeign
			case taken[s.number]:
				s.excluded = record.ReasonTwice
			default:
				taken[s.number] = true
			}
		}
	}
	a.journal = owner
	return a.assignDays(all)
}

// mostCommon returns the journal that most segments belong to.
func mostCommon(all []*segment) (owner [16]byte) {
	count := map[[16]byte]int{}
	for _, s := range all {
		if count[s.journal]++; count[s.journal] > count[owner] {
			owner = s.journal
		}
	}
	return owner
}

// assignDays moves each segment to the day of its header.
func (a *Archive) assignDays(all []*segment) error {
	byDate := map[int32]*day{}
	for _, d := range a.days {
		d.segments = nil
		byDate[d.date] = d
	}
	for _, s := range all {
		a.highest = max(a.highest, s.number)
		if s.excluded != "" {
			a.excluded = append(a.excluded, Damage{File: s.path(s.packed), Reason: s.excluded})
			continue
		}
		d := byDate[s.day]
		if d == nil || d.folder != s.folder {
			a.excluded = append(a.excluded, Damage{File: s.path(s.packed), Reason: record.ReasonMoved})
			continue
		}
		d.segments = append(d.segments, s)
	}
	a.days = slices.DeleteFunc(a.days, func(d *day) bool { return len(d.segments) == 0 })
	// The order is the order of writing, even if a clock was wrong.
	slices.SortStableFunc(a.days, func(x, y *day) int { return cmp.Compare(x.segments[0].number, y.segments[0].number) })
	if n := len(a.days); n > 0 {
		segments := a.days[n-1].segments
		a.epoch = segments[len(segments)-1].epoch
	}
	a.raise()
	a.findMissing()
	return nil
}

// findMissing compares the first position of each segment with the last of the segment before. The
// positions of an epoch have no gaps, except where a Gap reports lost rows. After a segment whose
// last position is not known, it compares the numbers of segments. Nothing follows damage at the
// end of an epoch.
func (a *Archive) findMissing() {
	var before *segment // of the epoch, with rows
	number := uint32(0) // of the segment before, also without rows
	damaged := false    // the rows after before are
	for _, d := range a.days {
		for _, s := range d.segments {
			follows := s.number == number+1
			if number = s.number; s.rows == 0 && len(s.gaps) == 0 {
				damaged = damaged || before != nil && s.epoch == before.epoch && s.damagedEnd()
				continue
			}
			if before != nil && s.epoch != before.epoch && (!follows || damaged) && len(s.gaps) == 0 {
				a.endsEarly(before, s.from)
				if s.first > 1 && !follows { // or rows at the beginning of its epoch are missing
					s.missing = s.first - 1
				}
			}
			if before != nil && s.epoch == before.epoch && len(s.gaps) == 0 && (s.first > before.last+1 || before.low && !follows) {
				lost := Damage{File: s.path(s.packed), Reason: record.ReasonBefore, To: s.first - 1}
				count := "unknown" // after the index of an earlier program
				if !before.low {
					lost.From = before.last + 1
					count = strconv.FormatUint(s.first-lost.From, 10)
				}
				s.missing = lost.To
				a.excluded = append(a.excluded, lost)
				a.log.Warn("rows of the journal are missing before a segment: a file was removed, cut or damaged",
					"file", lost.File, "last", before.last, "count", count)
			}
			before, damaged = s, s.damagedEnd()
		}
	}
}

// endsEarly notes that rows are missing after the last segment of an epoch. at is when the epoch
// was over.
func (a *Archive) endsEarly(s *segment, at int64) {
	lost := Damage{File: s.path(s.packed), Reason: record.ReasonMissing, Offset: s.end, From: s.last + 1}
	a.excluded = append(a.excluded, lost)
	a.log.Warn("rows of the journal are missing at the end of an epoch: a file was removed, cut or damaged",
		"file", lost.File, "last", s.last)
	s.gaps = append(slices.Clip(s.gaps), dayfile.Gap{Position: lost.From, At: at})
}

// raise corrects bounds from old indexes, which may be too low, by the first row of the next
// segment.
func (a *Archive) raise() {
	var next *segment // the first one after it that has rows
	for _, d := range slices.Backward(a.days) {
		for _, s := range slices.Backward(d.segments) {
			if s.low && s.rows > 0 {
				s.most = math.MaxInt64
				if next != nil {
					s.to = max(s.to, next.from)
				}
				if next != nil && s.epoch == next.epoch {
					s.last = max(s.last, next.first-1)
				}
			}
			if s.rows > 0 {
				next = s
			}
		}
	}
}
