package journal

import "github.com/ruedahq/rueda/internal/engine/journal/record"

// A checkpoint contains the state of every instrument, so that a restart need not read the whole
// epoch. It is written in pieces, one with each Commit, between the rows of the stream; the
// checkpoint has the state of an instrument as of the place of its rows in the log. A checkpoint is
// valid when its end is committed. Until then a restart uses the previous checkpoint, or the
// beginning of the epoch, before which nothing was numbered.

const (
	checkpointBytes       = 64 << 10 // a piece ends when it has this many bytes
	checkpointInstruments = 256      // or this many instruments
	maxPendingSegment     = 12 << 30 // limit of a segment with an incomplete checkpoint
)

// checkpointing is the state of the active segment's checkpoint.
type checkpointing struct {
	pending bool    // not complete
	begin   int64   // offset of its first block; 0: not begun
	next    uint32  // next instrument
	last    uint32  // last instrument when it began
	end     int64   // offset of its end
	bytes   int64   // of all its pieces
	minSeqs minSeqs // after a gap: first complete N of each series; nil: no gap
	gap     uint64  // position of that gap
}

// CheckpointPending reports whether a checkpoint is incomplete: Commit continues it even without
// new rows. Call it as Commit.
func (j *Journal) CheckpointPending() bool {
	return j.point.pending && j.seg != nil && j.sus == nil && !j.closed
}

// continueCheckpoint appends the next piece of the checkpoint. The hub's state includes all
// appended rows.
func (j *Journal) continueCheckpoint(b *Batch) {
	p := &j.point
	if j.checkpoint == nil {
		p.pending = false
		return
	}
	from := j.offset()
	if p.begin == 0 {
		j.beginBlock(record.Base{Position: j.position, At: j.newest})
		p.begin, p.next, p.last = j.start, 1, j.table.last()
		j.buf = record.AppendMark(j.buf, record.CheckpointBegin)
	}
	for n := 0; p.next <= p.last && n < checkpointInstruments && j.offset()-from < j.cfg.checkpoint; n++ {
		j.putDefinition(p.next, record.Base{Position: j.position, At: j.newest})
		j.checkpoint(p.next, j.emit)
		checkpointSources(j, p.next)
		p.next++
	}
	p.bytes += j.offset() - from
	if p.next <= p.last {
		return
	}
	j.frameFor(record.Base{Position: j.position, At: j.newest})
	j.buf = record.AppendMark(j.buf, record.CheckpointEnd)
	j.marked, p.pending, p.end = p.begin, false, j.offset()
	j.need.Store(p.bytes)
	b.minSeqs, b.gap, p.minSeqs = p.minSeqs, p.gap, nil
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
	if f := j.point.minSeqs; f != nil && r.Kind == Numbers {
		f.count(r.Instrument, &r.Counts)
	}
	j.put(r)
}

// putDefinition appends the definition of an instrument unless the segment has it. A definition
// precedes the first row of its instrument, so that every segment can be read alone.
func (j *Journal) putDefinition(number uint32, b record.Base) {
	if j.defined.Has(number) {
		return
	}
	if text := j.table.text(number); text != nil {
		j.frameFor(b)
		j.buf = record.AppendDefinition(j.buf, number, text)
	}
	j.defined.Add(number)
}

// limit returns the maximum size of the segment: Segment bytes after the checkpoint, or twice that
// if there is no Commit.
func (j *Journal) limit(segments int64) int64 {
	if j.point.pending && j.point.begin != 0 {
		return maxPendingSegment
	}
	return j.point.end + segments*j.cfg.Segment
}
