package journal

// A checkpoint tells how every instrument stands, so that a restart need not read the whole epoch. It is written in
// pieces, one with each Commit, between the rows of the stream: the state of an instrument is that of its place in
// the log. A checkpoint counts from the moment when its end is committed. Until then the one before it counts, or
// the beginning of the epoch, where nothing was numbered.

const (
	checkpointBytes       = 64 << 10 // a piece ends when it has this many bytes
	checkpointInstruments = 256      // or this many instruments
	maxUnfinished         = 12 << 30 // a segment ends here, although its checkpoint is not whole
)

// checkpointing is the checkpoint of the segment that is written.
type checkpointing struct {
	owed   bool   // it is not whole yet
	begin  int64  // where its first block begins; 0: it is not begun
	next   uint32 // the instrument whose state comes next
	last   uint32 // the last instrument that was defined when it began
	end    int64  // where it ended
	bytes  int64  // of its pieces
	floors floors // behind a hole: from where on each series is complete; nil: no hole is in front
	hole   uint64 // position of that hole
}

// Unfinished says whether a checkpoint is not whole yet: Commit goes on with it, also where nothing was
// appended. It is called as Commit is.
func (j *Journal) Unfinished() bool { return j.point.owed && j.seg != nil && j.sus == nil && !j.closed }

// continueCheckpoint appends the next piece of the checkpoint. The state of the hub agrees with the rows appended.
func (j *Journal) continueCheckpoint(b *Batch) {
	p := &j.point
	if j.checkpoint == nil {
		p.owed = false
		return
	}
	from := j.offset()
	if p.begin == 0 {
		j.beginBlock(base{j.position, j.newest})
		p.begin, p.next, p.last = j.start, 1, j.table.last()
		j.buf = appendMark(j.buf, recCheckpoint)
	}
	for n := 0; p.next <= p.last && n < checkpointInstruments && j.offset()-from < j.cfg.checkpoint; n++ {
		j.putDefinition(p.next, base{j.position, j.newest})
		j.checkpoint(p.next, j.emit)
		p.next++
	}
	p.bytes += j.offset() - from
	if p.next <= p.last {
		return
	}
	j.frameFor(base{j.position, j.newest})
	j.buf = appendMark(j.buf, recCheckpointEnd)
	j.marked, p.owed, p.end = p.begin, false, j.offset()
	j.need.Store(p.bytes)
	b.floors, b.hole, p.floors = p.floors, p.hole, nil
}

// emitRow appends a row of a checkpoint.
func (j *Journal) emitRow(r *Row) {
	r.Checkpoint = true
	if r.Position == 0 {
		r.Position = j.position
	}
	if r.At == 0 {
		r.At = j.newest
	}
	if f := j.point.floors; f != nil && r.Kind == Numbers {
		f.count(r.Instrument, &r.Counts)
	}
	j.put(r)
}

// putDefinition appends the definition of an instrument, unless the segment has it. Every segment can be read by
// itself: a definition comes before the first row of its instrument.
func (j *Journal) putDefinition(number uint32, b base) {
	if j.defined.has(number) {
		return
	}
	if text := j.table.text(number); text != nil {
		j.frameFor(b)
		j.buf = appendDefinition(j.buf, number, text)
	}
	j.defined.add(number)
}

// limit is where the segment ends: rows take as much as Segment says behind the checkpoint, and twice of it where
// no Commit comes.
func (j *Journal) limit(segments int64) int64 {
	if j.point.owed && j.point.begin != 0 {
		return maxUnfinished
	}
	return j.point.end + segments*j.cfg.Segment
}

// bitset is a set of small numbers.
type bitset []uint64

func (s bitset) has(n uint32) bool { return int(n/64) < len(s) && s[n/64]>>(n%64)&1 == 1 }

func (s *bitset) add(n uint32) {
	for int(n/64) >= len(*s) {
		*s = append(*s, 0)
	}
	(*s)[n/64] |= 1 << (n % 64)
}
