package journal

import "github.com/ruedahq/rueda/internal/engine/journal/record"

// The newest numbers of sources are in the same frame as the rows of their events, so that a
// restart finds both or neither. A checkpoint has all of them.

type sourceKey struct {
	instrument uint32
	channel    Channel
}

// sources are the newest numbers of sources.
type sources struct {
	newest  map[sourceKey]*sourceNumber
	changed []*sourceNumber // since the last frame ended
}

type sourceNumber struct {
	Source
	changed bool // listed in changed
}

func (x *sources) set(s *Source) *sourceNumber {
	k := sourceKey{s.Instrument, s.Channel}
	n := x.newest[k]
	if n == nil {
		if n = new(sourceNumber); x.newest == nil {
			x.newest = map[sourceKey]*sourceNumber{}
		}
		x.newest[k] = n
	}
	n.Source = *s
	return n
}

// NoteSource notes a number of a source. It is stored with the next row, or by the next commit. A
// row with Row.Source needs no call. Call it as Append.
func (w *writer) NoteSource(s *Source) {
	if n := w.sources.set(s); !n.changed {
		n.changed = true
		w.sources.changed = append(w.sources.changed, n)
	}
}

// putSources ends a frame with the numbers that have changed.
func (w *writer) putSources() {
	for _, n := range w.sources.changed {
		n.changed = false
		w.buf = record.AppendSource(w.buf, &n.Source)
	}
	w.sources.changed = w.sources.changed[:0]
}

// checkpointSources adds the numbers of an instrument to a checkpoint.
func checkpointSources(j *Journal, instrument uint32) {
	if len(j.sources.newest) == 0 {
		return
	}
	for c := range NumChannels {
		if n := j.sources.newest[sourceKey{instrument, c}]; n != nil {
			j.frameFor(record.Base{Position: j.position, At: j.newest})
			j.buf = record.AppendSource(j.buf, &n.Source)
		}
	}
}

// restoreSource takes a record that Restore has read.
func restoreSource(j *Journal, rec []byte) {
	if s, ok := record.DecodeSource(rec); ok && j.checkpoint == nil { // otherwise it is running, and knows its numbers
		j.sources.set(&s)
	}
}

// Sources returns the newest numbers of sources in the present epoch, in no order. Call it after
// Restore and before the first Append.
func (w *writer) Sources() []Source {
	list := make([]Source, 0, len(w.sources.newest))
	for _, n := range w.sources.newest {
		list = append(list, n.Source)
	}
	return list
}
