package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"

	"github.com/ruedahq/rueda/market"
)

// Archive is the reading side of a journal. Its methods are safe from any goroutine.
type Archive struct {
	table  *table
	unpack *zstd.Decoder
	sys    system // of a Journal; an archive that is only read changes nothing
	floors atomic.Pointer[floors]
	lost   losses // while the journal is suspended

	mu    sync.RWMutex // guards what follows, and the last segment's index
	days  []*day       // oldest first
	epoch string

	journal [16]byte // whose segments these are
	highest uint32   // number of a segment, of those that are left out too
	refused []Damage // files that are left out
}

// day is a UTC date.
type day struct {
	date     int32
	folder   string
	bytes    int64    // on disk, but for the segment that is written
	index    *dayFile // nil: the day is not closed
	segments []*segment
}

// segmentView is a segment as a reader saw it; the writer changes nothing of it.
type segmentView struct {
	*segment
	sum    summary
	end    int64
	proved bool
	blocks []block
	last   block // of blocks, which only holds those before it
	gaps   []hole
	index  *dayFile // of a closed day: it has the spans
}

// newArchive makes an empty archive. It has one decoder, for all goroutines.
func newArchive() (*Archive, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxUnpacked), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fmt.Errorf("make decompressor: %w", err)
	}
	return &Archive{table: newTable(), unpack: d}, nil
}

// maxUnpacked bounds what a compressed block may become: the longest frame and its head.
const maxUnpacked = 8*maxFrame + spanBytes

// Epoch is the newest epoch: of a Journal the one that it writes.
func (a *Archive) Epoch() string {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.epoch
}

// Epochs are all epochs of which something is kept, oldest first.
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

// Instrument is the newest definition of a number.
func (a *Archive) Instrument(n uint32) (market.Instrument, bool) { return a.table.get(n) }

// Lookup is the number of an identifier.
func (a *Archive) Lookup(id market.InstrumentID) (uint32, bool) { return a.table.lookup(id) }

// Day is a UTC date of the journal.
type Day struct {
	Date     string // 2006-01-02
	Closed   bool   // nothing will be added; sorted by series
	Rows     uint64 // messages, without checkpoints
	Bytes    int64  // on disk
	From, To int64  // At of the first and the last row
	Complete int64  // At from which on nothing is missing: From, or where the last hole ended
	Hash     string // of a closed day: of its rows, the same for the same rows wherever they were written; for ETags
}

// Days lists the dates of the journal, oldest first.
func (a *Archive) Days() []Day {
	a.mu.RLock()
	defer a.mu.RUnlock()
	list := make([]Day, 0, len(a.days))
	for _, d := range a.days {
		list = append(list, d.told())
	}
	return list
}

func (d *day) told() Day {
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
		t.From, t.To = sum.from, sum.to
		t.Complete = max(complete, t.From)
	}
	if d.index != nil {
		t.Closed, t.Hash = true, d.index.meta.Hash
	}
	return t
}

// complete is the At from which on nothing of a segment is missing, if anything was.
func (s *segment) complete() int64 {
	at := int64(math.MinInt64)
	for _, h := range s.holes {
		at = max(at, h.At)
	}
	if s.resumed > at {
		at = s.resumed
	}
	return at
}

// afterDamage sets from when on the segment is whole, if a part of it is not.
func (s *segment) afterDamage() {
	s.resumed = math.MinInt64
	for _, d := range s.damage {
		at := s.to
		for _, b := range s.blocks {
			if b.offset >= d.Offset+d.Bytes {
				at = b.base.at
				break
			}
		}
		s.resumed = max(s.resumed, at)
	}
}

// views are the segments of an epoch ("": the newest), oldest first, as they are now.
func (a *Archive) views(epoch string) []segmentView {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if epoch == "" {
		epoch = a.epoch
	}
	var list []segmentView
	for _, d := range a.days {
		for _, s := range d.segments {
			if s.epoch == epoch {
				v := s.view()
				v.index = d.index
				list = append(list, v)
			}
		}
	}
	return list
}

// view is taken under the archive's lock.
func (s *segment) view() segmentView {
	v := segmentView{segment: s, sum: s.summary, end: s.end, gaps: s.holes, proved: s.proved}
	if n := len(s.blocks); n > 0 {
		v.blocks, v.last = s.blocks[:n-1:n-1], s.blocks[n-1]
	}
	return v
}

// pieces are the spans of a segment.
func (v *segmentView) pieces() ([]span, error) {
	if v.index != nil {
		return v.index.spans(v.number)
	}
	if v.last.bytes == 0 && len(v.blocks) == 0 {
		return nil, nil
	}
	return spansOf(append(v.blocks, v.last)), nil
}

// load reads a folder. keep says whether to put in order what a crash has left behind.
func (a *Archive) load(folder string, keep bool) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("read journal folder: %w", err)
	}
	for _, e := range entries { // by name, and so by date
		date, ok := parseDate(e.Name())
		if !ok || !e.IsDir() {
			continue
		}
		d := &day{date: date, folder: filepath.Join(folder, e.Name())}
		if keep {
			if err := d.tidy(&a.sys); err != nil {
				return err
			}
		}
		if err := a.loadDay(d); err != nil {
			return err
		}
		if len(d.segments) > 0 {
			a.days = append(a.days, d)
		}
	}
	return a.dropTwins()
}

// tidy removes files that were being made when the process ended, a segment that stands there
// compressed as well, and one that was only just begun.
func (d *day) tidy(sys *system) error {
	entries, err := os.ReadDir(d.folder)
	if err != nil {
		return fmt.Errorf("read folder of a day: %w", err)
	}
	for _, e := range entries {
		name := e.Name()
		_, packed, ok := parseSegmentName(name)
		twin := ""
		if ok && packed {
			twin = strings.TrimSuffix(name, packedEnding) + segmentEnding
		}
		if strings.HasSuffix(name, tempEnding) || ok && !packed && isEmpty(e) {
			twin = name
		}
		if twin == "" {
			continue
		}
		if err := sys.remove(filepath.Join(d.folder, twin)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove what a crash left: %w", err)
		}
	}
	return nil
}

// isEmpty says whether a segment has not even its header.
func isEmpty(e fs.DirEntry) bool {
	info, err := e.Info()
	return err == nil && info.Mode().IsRegular() && info.Size() < headerSize
}

// loadDay reads the index of a closed day, or inspects the segments of one that is not.
func (a *Archive) loadDay(d *day) error {
	index, err := openDayFile(filepath.Join(d.folder, dayFileName), a.unpack)
	switch {
	case err == nil:
		if err := a.takeDay(d, index); err == nil {
			return nil
		}
		if err := index.close(); err != nil {
			return err
		}
	case errors.Is(err, fs.ErrNotExist):
	default:
		// The segments still have all of it.
		var damage *Damage
		if !errors.As(err, &damage) {
			return err
		}
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
		if err := a.inspect(s); err != nil {
			return err
		}
		if s.header == (header{}) {
			a.refused = append(a.refused, s.damage...)
			continue
		}
		d.segments = append(d.segments, s)
	}
	return nil
}

// takeDay takes over what the index of a closed day tells.
func (a *Archive) takeDay(d *day, index *dayFile) error {
	for _, def := range index.meta.Definitions {
		if err := a.table.learn(def.Number, def.Text); err != nil {
			return err
		}
		if def.RealClock {
			a.table.markRealClock(def.Number)
		}
	}
	index.meta.Definitions = nil
	d.index, d.segments, d.bytes = index, nil, index.size
	for _, s := range index.segments() {
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

// stat looks for the file of a segment in both forms.
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
	return 0, false, fmt.Errorf("find segment: %w", &Damage{File: s.path(false), Reason: reasonMissing})
}

// inspect reads a segment by its file.
func (a *Archive) inspect(s *segment) error {
	f, err := a.openSegment(s)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // was only read from
	if f.reason != "" {
		s.damage = append(s.damage, Damage{File: f.name, Reason: f.reason})
		return nil
	}
	s.header, s.packed = f.header, f.packed
	x := inspector{seg: s, table: a.table, file: f, size: f.size}
	if err := x.run(); err != nil {
		return err
	}
	s.torn = x.torn
	s.proved = len(s.damage) == 0
	s.afterDamage()
	return nil
}

// dropTwins leaves out segments that do not belong here: of another journal than the newest
// ones, and those whose number is there twice. What counts is what a file says, not its name.
func (a *Archive) dropTwins() error {
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
	// Whoever bears the right name comes first.
	for _, right := range []bool{true, false} {
		for _, s := range all {
			if (s.name == segmentName(s.number)) != right {
				continue
			}
			switch {
			case s.journal != owner:
				s.foreign = reasonForeign
			case taken[s.number]:
				s.foreign = reasonTwice
			default:
				taken[s.number] = true
			}
		}
	}
	a.journal = owner
	return a.settle(all)
}

// mostCommon is the journal that most segments belong to.
func mostCommon(all []*segment) (owner [16]byte) {
	count := map[[16]byte]int{}
	for _, s := range all {
		if count[s.journal]++; count[s.journal] > count[owner] {
			owner = s.journal
		}
	}
	return owner
}

// settle puts each segment into the day that it says it is of.
func (a *Archive) settle(all []*segment) error {
	byDate := map[int32]*day{}
	for _, d := range a.days {
		d.segments = nil
		byDate[d.date] = d
	}
	for _, s := range all {
		a.highest = max(a.highest, s.number)
		if s.foreign != "" {
			a.refused = append(a.refused, Damage{File: s.path(s.packed), Reason: s.foreign})
			continue
		}
		d := byDate[s.day]
		if d == nil || d.folder != s.folder {
			a.refused = append(a.refused, Damage{File: s.path(s.packed), Reason: reasonMoved})
			continue
		}
		d.segments = append(d.segments, s)
	}
	a.days = slices.DeleteFunc(a.days, func(d *day) bool { return len(d.segments) == 0 })
	// A day of a wrong clock stands where it was written, whatever its date.
	slices.SortStableFunc(a.days, func(x, y *day) int { return cmp.Compare(x.segments[0].number, y.segments[0].number) })
	if n := len(a.days); n > 0 {
		segments := a.days[n-1].segments
		a.epoch = segments[len(segments)-1].epoch
	}
	return nil
}
