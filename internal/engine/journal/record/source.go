package record

import "encoding/binary"

// Source is the newest sequence number that a source has given to an event of a channel of an
// instrument. Its record is in the frame of the event's row.
type Source struct {
	Instrument uint32
	Channel    Channel
	Numbering  uint64 // hash of the name of the numbering; numbers of different ones do not compare
	Sequence   uint64
}

const sourceSize = HeadSize + 8

// AppendSource appends the record of a Source.
func AppendSource(b []byte, s *Source) []byte {
	w := uint64(SourceNumber) | sourceSize/8<<16 | uint64(s.Instrument)<<32
	return AppendWords(b, w, s.Numbering, s.Sequence, uint64(s.Channel))
}

// DecodeSource decodes a record of kind SourceNumber.
func DecodeSource(rec []byte) (s Source, ok bool) {
	if len(rec) < sourceSize || rec[1] != 0 || Word(rec, 3) >= uint64(NumChannels) {
		return s, false
	}
	return Source{binary.LittleEndian.Uint32(rec[4:]), Channel(rec[HeadSize]), Word(rec, 1), Word(rec, 2)}, true
}
