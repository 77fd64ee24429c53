package journal

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// sorter writes the file of a day. It goes through the day as often as its memory needs: each
// time it gathers the rows of the next few series.
type sorter struct {
	out     *tempFile
	enc     *zstd.Encoder
	views   []segmentView
	epochs  []string
	list    []daySeries          // all series, in order, with the number of their rows
	open    map[openKey]*sorting // those of this round
	blocks  []dayBlock
	sum     hash.Hash // of all rows, in the first round
	scratch []byte
}

type openKey struct {
	key   seriesKey
	epoch uint16
}

// sorting is a series whose rows are being gathered.
type sorting struct {
	dec    decoder
	buf    []byte
	base   base
	now    dayBlock   // what is in buf
	blocks []dayBlock // with at from the start of packed
	packed []byte
}

// roundRows bounds what a round holds in memory, at about 64 bytes a row.
const roundRows = 1 << 19

// writeDay makes the file of a day from its segments, none of which changes any more.
func (a *Archive) writeDay(ctx context.Context, path string, date int32, views []segmentView, enc *zstd.Encoder, put func(*os.File, []byte) (int, error)) error {
	out, err := makeTemp(path, put)
	if err != nil {
		return err
	}
	s := &sorter{out: out, enc: enc, views: views, sum: sha256.New()}
	s.count()
	out.add([]byte(dayMagic))
	err = s.rounds(ctx, a)
	if err == nil {
		err = s.finish(a, date)
	}
	return out.finish(err)
}

// count makes the list of series.
func (s *sorter) count() {
	at := map[openKey]int{}
	for _, v := range s.views {
		epoch := slices.Index(s.epochs, v.epoch)
		if epoch < 0 {
			epoch = len(s.epochs)
			s.epochs = append(s.epochs, v.epoch)
		}
		for key, q := range v.series {
			k := openKey{key, uint16(epoch)}
			i, ok := at[k]
			if !ok {
				i = len(s.list)
				at[k] = i
				s.list = append(s.list, daySeries{key: key, epoch: uint16(epoch)})
			}
			for _, c := range q.chunks {
				s.list[i].rows += uint64(len(c.places))
			}
		}
	}
	slices.SortFunc(s.list, compareSeries)
}

func (s *sorter) rounds(ctx context.Context, a *Archive) error {
	for from := 0; from == 0 || from < len(s.list); {
		to, rows := from, uint64(0)
		s.open = map[openKey]*sorting{}
		for to < len(s.list) && (rows == 0 || rows+s.list[to].rows <= roundRows) {
			rows += s.list[to].rows
			s.open[openKey{s.list[to].key, s.list[to].epoch}] = &sorting{}
			to++
		}
		for i := range s.views {
			epoch := uint16(slices.Index(s.epochs, s.views[i].epoch))
			err := a.walk(ctx, &s.views[i], walkAll, func(c *cursor, rec []byte) (bool, error) {
				return true, s.take(c, rec, epoch, from == 0)
			})
			if err != nil {
				return err
			}
		}
		for i := from; i < to; i++ {
			s.write(&s.list[i])
		}
		if from = to; to == 0 {
			return nil
		}
	}
	return nil
}

// take takes a record that may belong to this round.
func (s *sorter) take(c *cursor, rec []byte, epoch uint16, first bool) error {
	if rec[0] >= byte(numKinds) || rec[1]&flagCheckpoint != 0 || rec[0] == byte(Hole) {
		return nil
	}
	var h head
	if !h.parse(rec, c.base) {
		return c.damage(c.pos-len(rec), reasonRecord)
	}
	if first {
		s.scratch = appendCanonical(s.scratch[:0], &h, rec)
		s.sum.Write(s.scratch)
	}
	slot := h.slotOf(rec)
	if slot == noSlot {
		return nil
	}
	q := s.open[openKey{seriesKey{h.instrument, uint8(slot)}, epoch}]
	if q == nil {
		return nil
	}
	r, ok := q.dec.row(rec, c.base)
	if !ok {
		return c.damage(c.pos-len(rec), reasonRecord)
	}
	q.add(r, s.enc)
	return nil
}

// appendCanonical appends what is the same for the same row in whatever file it stands.
func appendCanonical(b []byte, h *head, rec []byte) []byte {
	const own = flagLatency | 3<<sideShift
	b = append(b, byte(h.kind), h.flags&own)
	b = binary.LittleEndian.AppendUint32(b, h.instrument)
	b = appendWords(b, h.position, h.n, uint64(h.time), uint64(h.at))
	return append(b, rec[h.body:]...)
}

func (q *sorting) add(r *Row, enc *zstd.Encoder) {
	// Rows of one series may be minutes apart: their At takes a word of its own then.
	if len(q.buf) > 0 && (len(q.buf) >= spanBytes || r.Position-q.base.position > math.MaxUint32) {
		q.pack(enc)
	}
	if len(q.buf) == 0 {
		q.base = base{r.Position, r.At}
		q.buf = append(q.buf, make([]byte, frameHead+blockSize)...)
		q.now = dayBlock{first: r.N, least: r.Time, most: r.Time}
	}
	q.buf = appendRow(q.buf, q.base, r)
	q.now.last = r.N
	q.now.least, q.now.most = min(q.now.least, r.Time), max(q.now.most, r.Time)
}

// pack puts the block that is full aside. What stands in its frame is known only when it is
// written, so that its place is not part of it yet.
func (q *sorting) pack(enc *zstd.Encoder) {
	if len(q.buf) == 0 {
		return
	}
	appendBlock(q.buf[:frameHead], q.base, 0)
	seal(q.buf, daySalt, 0)
	at := len(q.packed)
	q.packed = enc.EncodeAll(q.buf, q.packed)
	p := q.packed[at:]
	q.now.at, q.now.packed, q.now.raw = int64(at), uint32(len(p)), uint32(len(q.buf))
	q.now.sum = crc32.Checksum(p, castagnoli())
	q.blocks = append(q.blocks, q.now)
	q.buf = q.buf[:0]
}

// write writes what was gathered of a series.
func (s *sorter) write(e *daySeries) {
	q := s.open[openKey{e.key, e.epoch}]
	q.pack(s.enc)
	e.block, e.blocks = uint32(len(s.blocks)), uint32(len(q.blocks))
	at := s.out.size
	s.out.add(q.packed)
	for i, k := range q.blocks {
		if i == 0 {
			e.first, e.least, e.most = k.first, k.least, k.most
		}
		e.last, e.least, e.most = k.last, min(e.least, k.least), max(e.most, k.most)
		k.at += at
		s.blocks = append(s.blocks, k)
	}
}

// finish writes the sections and the foot.
func (s *sorter) finish(a *Archive, date int32) error {
	meta := dayMeta{Version: version, Date: dateOf(date), Epochs: s.epochs}
	var spans []byte
	for _, v := range s.views {
		list, err := v.pieces()
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
			Least: v.sum.least, Most: v.sum.most, Resumed: v.resumed, Holes: v.gaps, Damage: v.damage, Torn: v.torn, Spans: len(list),
		})
	}
	a.table.each(func(number uint32, text []byte) {
		meta.Definitions = append(meta.Definitions, definitionMeta{number, text})
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

// Hash is a hash of all messages of an epoch ("": the newest) in stream order: two journals have
// the same one where their rows are the same.
func (a *Archive) Hash(ctx context.Context, epoch string) (string, error) {
	sum, scratch := sha256.New(), []byte(nil)
	for _, v := range a.views(epoch) {
		err := a.walk(ctx, &v, walkAll, func(c *cursor, rec []byte) (bool, error) {
			if rec[0] >= byte(numKinds) || rec[1]&flagCheckpoint != 0 || rec[0] == byte(Hole) {
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

// syncFolder makes the names in a folder last.
func syncFolder(path string) error {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	defer func() { _ = f.Close() }() // was only read from
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}
