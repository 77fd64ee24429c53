package journal

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/ruedahq/rueda/internal/sched"
)

// sorter writes the index of a day: it sorts the rows by series and compresses each series in
// blocks.
type sorter struct {
	out     *tempFile
	enc     *zstd.Encoder
	views   []segmentView
	epochs  []string
	rows    *gatherer
	list    []daySeries // sorted
	blocks  []dayBlock
	sum     hash.Hash // of all rows
	scratch []byte

	// The current series.
	dec    decoder
	series daySeries
	buf    []byte
	base   base
	now    dayBlock // description of buf
	pack   []byte
}

// writeDay writes the index of a day from its segments, which do not change any more.
func (a *Archive) writeDay(ctx context.Context, path string, date int32, views []segmentView, enc *zstd.Encoder, put func(*os.File, []byte) (int, error)) error {
	out, err := makeTemp(&a.sys, path, put)
	if err != nil {
		return err
	}
	bytes := int64(0)
	for i := range views {
		bytes += views[i].end
	}
	s := &sorter{out: out, enc: enc, views: views, sum: sha256.New(), rows: newGatherer(&a.sys, path+".rows", bytes, put)}
	out.add([]byte(dayMagic))
	err = s.gather(ctx, a)
	if err == nil {
		err = s.rows.each(ctx, s.add, s.endSeries)
	}
	err = errors.Join(err, s.rows.close())
	if err == nil {
		err = s.finish(a, date)
	}
	return out.finish(err)
}

// gather reads the rows of the day.
func (s *sorter) gather(ctx context.Context, a *Archive) error {
	for i := range s.views {
		epoch := slices.Index(s.epochs, s.views[i].epoch)
		if epoch < 0 {
			epoch = len(s.epochs)
			s.epochs = append(s.epochs, s.views[i].epoch)
		}
		err := a.walk(ctx, &s.views[i], walkAll, func(c *cursor, rec []byte) (bool, error) {
			return true, s.addRecord(c, rec, uint16(epoch))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// addRecord adds a record of the day.
func (s *sorter) addRecord(c *cursor, rec []byte, epoch uint16) error {
	if rec[0] >= byte(numKinds) || rec[1]&flagCheckpoint != 0 || rec[0] == byte(Gap) {
		return nil
	}
	var h head
	if !h.parse(rec, c.base) {
		return c.damage(c.pos-len(rec), reasonRecord)
	}
	s.scratch = appendCanonical(s.scratch[:0], &h, rec)
	s.sum.Write(s.scratch)
	slot := h.slotOf(rec)
	if slot == noSlot {
		return nil
	}
	return s.rows.add(gatherKey(seriesKey{h.instrument, uint8(slot)}, epoch), c.base, rec)
}

// appendCanonical appends an encoding of a row that does not depend on its file.
func appendCanonical(b []byte, h *head, rec []byte) []byte {
	const own = flagLatency | 3<<sideShift
	b = append(b, byte(h.kind), h.flags&own)
	b = binary.LittleEndian.AppendUint32(b, h.instrument)
	b = appendWords(b, h.position, h.n, uint64(h.time), uint64(h.at))
	return append(b, rec[h.body:]...)
}

// add adds a row to the current series.
func (s *sorter) add(from base, rec []byte) error {
	r, ok := s.dec.row(rec, from)
	if !ok {
		return fmt.Errorf("sort the day: %w", errSum)
	}
	// Rows of a series may be minutes apart: their At then takes a full word.
	if len(s.buf) > 0 && (len(s.buf) >= spanBytes || r.Position-s.base.position > math.MaxUint32) {
		s.endBlock()
	}
	if len(s.buf) == 0 {
		s.base = base{r.Position, r.At}
		s.buf = append(s.buf, make([]byte, frameHead+blockSize)...)
		s.now = dayBlock{first: r.N, least: r.Time, most: r.Time}
	}
	s.buf = appendRow(s.buf, s.base, r)
	s.now.last = r.N
	s.now.least, s.now.most = min(s.now.least, r.Time), max(s.now.most, r.Time)
	s.series.rows++
	return nil
}

// endBlock writes the current block. Its frame has offset 0.
func (s *sorter) endBlock() {
	if len(s.buf) == 0 {
		return
	}
	sched.Yield()
	appendBlock(s.buf[:frameHead], s.base, 0)
	finishFrame(s.buf, daySalt, 0)
	s.pack = s.enc.EncodeAll(s.buf, s.pack[:0])
	k := &s.now
	k.at, k.packed, k.raw = s.out.size, uint32(len(s.pack)), uint32(len(s.buf))
	k.sum = crc32.Checksum(s.pack, castagnoli())
	e := &s.series
	if e.blocks == 0 {
		e.block, e.first, e.least, e.most = uint32(len(s.blocks)), k.first, k.least, k.most
	}
	e.blocks++
	e.last, e.least, e.most = k.last, min(e.least, k.least), max(e.most, k.most)
	s.out.add(s.pack)
	s.blocks = append(s.blocks, *k)
	s.buf = s.buf[:0]
}

// endSeries ends the current series.
func (s *sorter) endSeries(key uint64) error {
	s.endBlock()
	s.series.key, s.series.epoch = seriesKey{uint32(key >> 32), uint8(key >> 16)}, uint16(key)
	s.list = append(s.list, s.series)
	s.series = daySeries{}
	return s.out.err
}

// finish writes the sections and the footer.
func (s *sorter) finish(a *Archive, date int32) error {
	meta := dayMeta{Version: version, Date: dateOf(date), Epochs: s.epochs}
	var spans []byte
	for _, v := range s.views {
		list, err := v.spans()
		if err != nil {
			return err
		}
		for _, p := range list {
			spans = appendWords(spans, uint64(p.offset), uint64(p.bytes), p.position, uint64(p.high))
		}
		meta.Journal = hex.EncodeToString(v.journal[:])
		meta.Segments = append(meta.Segments, segmentMeta{
			Number: v.number, Name: v.name, Epoch: v.epoch, Salt: v.salt, Day: v.day, End: v.end,
			Rows: v.sum.rows, First: v.sum.first, Last: v.sum.last, From: v.sum.from, To: v.sum.to,
			Least: v.sum.least, Most: v.sum.most, Resumed: v.resumed, Gaps: v.gaps, Damage: v.damage, Torn: v.torn, Spans: len(list),
		})
	}
	a.table.each(func(number uint32, text []byte, realClock bool) {
		meta.Definitions = append(meta.Definitions, definitionMeta{number, text, realClock})
	})
	meta.Hash = hex.EncodeToString(s.sum.Sum(nil))
	text, err := json.Marshal(meta)
	if err != nil {
		return fmt.Errorf("describe the day: %w", err)
	}
	var series, blocks []byte
	for _, e := range s.list {
		series = appendWords(series, uint64(e.key.instrument)|uint64(e.key.slot)<<32|uint64(e.epoch)<<48,
			uint64(e.block)|uint64(e.blocks)<<32, e.first, e.last, e.rows, uint64(e.least), uint64(e.most))
	}
	for _, k := range s.blocks {
		blocks = appendWords(blocks, uint64(k.at), uint64(k.packed)|uint64(k.raw)<<32, k.first, k.last,
			uint64(k.least), uint64(k.most), uint64(k.sum))
	}
	var foot []byte
	for _, b := range [numSections][]byte{text, series, blocks, spans} {
		foot = appendWords(foot, uint64(s.out.size), uint64(len(b)), uint64(crc32.Checksum(b, castagnoli())))
		s.out.add(b)
	}
	foot = appendWords(foot, uint64(crc32.Checksum(foot, castagnoli())))
	s.out.add(append(foot, dayMagic...))
	return nil
}

// Hash returns a hash of all messages of an epoch ("": the newest) in stream order. Journals with
// equal rows have equal hashes.
func (a *Archive) Hash(ctx context.Context, epoch string) (string, error) {
	sum, scratch := sha256.New(), []byte(nil)
	for _, v := range a.views(epoch) {
		err := a.walk(ctx, &v, walkAll, func(c *cursor, rec []byte) (bool, error) {
			if rec[0] >= byte(numKinds) || rec[1]&flagCheckpoint != 0 || rec[0] == byte(Gap) {
				return true, nil
			}
			var h head
			if !h.parse(rec, c.base) {
				return false, c.damage(c.pos-len(rec), reasonRecord)
			}
			scratch = appendCanonical(scratch[:0], &h, rec)
			sum.Write(scratch)
			return true, nil
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// syncFolder syncs the entries of a folder.
func syncFolder(path string) error {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	defer func() { _ = f.Close() }() // only read from
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}
