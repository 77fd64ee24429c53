package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// A Batch is one message of the log. A group that is too large for one message spans several
// batches.
type Batch struct {
	Cluster string // name of the cluster
	ID      ID     // of this batch
	Epoch   string
	Kind    BatchKind
	First   bool   // Data begins a group of records
	Final   bool   // Data ends it
	Prev    uint64 // position before the rows of the group
	Last    uint64 // position of its newest row; Prev: it has none
	Time    int64  // the log's clock, Unix ns: it goes on from leader to leader, and never back

	Sources  []Source // newest sequences of feeds; of a term row: of all feeds
	Exact    bool     // of a term row: Sources are known at the base of the term
	History  History  // of a term row: its newest term is that of the batch
	NewEpoch bool     // of a term row: it begins Epoch
	Retired  []Member // nodes that show no row after this batch until they register again
	Joined   []Member // nodes that have all rows that they have shown

	Data []byte // records, or a part of them; see Encoder
}

// ID identifies a batch. Number counts the batches of a term. The batch 0 is the term row.
type ID struct {
	Term   Term
	Number uint64
}

// BatchKind states what the rows of a batch are.
type BatchKind uint8

// Kinds of batches.
const (
	TermRow BatchKind = iota + 1 // begins a term; it has no rows
	NewRows                      // numbered in the term of the batch; none: a heartbeat
	OldRows                      // of earlier terms, from the journal of a node
)

// Source is the newest sequence of a feed that is in the log. Name names the feed, or a series of a
// feed.
type Source struct {
	Name     string
	Sequence uint64
}

// Member is a registered node. Number counts its registrations.
type Member struct {
	Name   string
	Number uint64
}

// FormatVersion is the version of batches that this program writes. It reads older ones, and no
// newer ones. Version 1 has no compressed pieces, version 2 no trading status unknown.
const FormatVersion = 3

// Errors of Decode.
var (
	ErrBatch   = errors.New("not a batch of the log, or a damaged one")
	ErrVersion = errors.New("the log is written by a newer program: upgrade this node first")
	ErrCluster = errors.New("the log belongs to another cluster")
)

// Limits of Decode.
const (
	maxName  = 255
	maxNames = 1 << 16 // sources or members of a batch
)

// maxSources bounds the sources of a term row, in bytes. More of them could exceed what NATS takes
// in a message.
const maxSources = 900 << 10

// sizeOf returns about how many bytes sources take in a batch.
func sizeOf(list []Source) (n int) {
	for _, s := range list {
		n += 1 + len(s.Name) + binary.MaxVarintLen64
	}
	return n
}

// sourcesToSend returns the sources that a node sends to another one as JSON, which takes more
// bytes, and the position at which they are exact. If they are too many it returns none: feeds that
// continue after the rows of that node then report a gap.
func sourcesToSend(list []Source, at uint64) ([]Source, uint64) {
	if sizeOf(list) > maxSources/4 {
		return nil, 0
	}
	return list, at
}

const (
	batchMagic = "RuLg"
	batchHead  = 12 // magic, version, flags, checksum
)

const (
	flagFirst = 1 << iota
	flagFinal
	flagExact
	flagNewEpoch
)

// AppendBatch appends the encoding of a batch.
func AppendBatch(b []byte, x *Batch) []byte {
	start := len(b)
	b = append(b, batchMagic...)
	b = binary.LittleEndian.AppendUint16(b, FormatVersion)
	b = append(b, byte(x.Kind), flags(x))
	b = append(b, 0, 0, 0, 0) // the checksum
	b = appendName(b, x.Cluster)
	b = appendName(b, x.Epoch)
	b = appendTerm(b, x.ID.Term)
	for _, v := range [...]uint64{x.ID.Number, x.Prev, x.Last - x.Prev, uint64(x.Time)} {
		b = binary.AppendUvarint(b, v)
	}
	b = binary.AppendUvarint(b, uint64(len(x.Sources)))
	for _, s := range x.Sources {
		b = binary.AppendUvarint(appendName(b, s.Name), s.Sequence)
	}
	b = appendHistory(b, &x.History)
	b = appendMembers(b, x.Retired)
	b = appendMembers(b, x.Joined)
	b = append(b, x.Data...)
	binary.LittleEndian.PutUint32(b[start+8:], checksum(b[start:]))
	return b
}

func flags(x *Batch) (f byte) {
	for i, set := range [...]bool{x.First, x.Final, x.Exact, x.NewEpoch} {
		if set {
			f |= 1 << i
		}
	}
	return f
}

// checksum returns the CRC32C of a batch without the checksum itself.
func checksum(b []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(b[:8], table), table, b[batchHead:])
}

func appendName(b []byte, s string) []byte {
	s = s[:min(len(s), maxName)]
	return append(append(b, byte(len(s))), s...)
}

func appendTerm(b []byte, t Term) []byte {
	return binary.LittleEndian.AppendUint64(binary.AppendUvarint(b, t.Number), t.Leader)
}

func appendHistory(b []byte, h *History) []byte {
	b = appendName(b, h.Epoch)
	b = binary.AppendUvarint(b, uint64(len(h.Starts)))
	for _, s := range h.Starts {
		b = binary.AppendUvarint(appendTerm(b, s.Term), s.After)
	}
	return b
}

func appendMembers(b []byte, list []Member) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, m := range list {
		b = binary.AppendUvarint(appendName(b, m.Name), m.Number)
	}
	return b
}

// Decode decodes a batch of a cluster. Data refers to the memory of b. The error is ErrVersion,
// ErrCluster or ErrBatch.
func (x *Batch) Decode(cluster string, b []byte) error {
	*x = Batch{}
	if len(b) < batchHead || string(b[:4]) != batchMagic {
		return ErrBatch
	}
	if v := binary.LittleEndian.Uint16(b[4:]); v > FormatVersion {
		return fmt.Errorf("%w (format %d, this program reads %d)", ErrVersion, v, FormatVersion)
	} else if v == 0 || checksum(b) != binary.LittleEndian.Uint32(b[8:]) {
		return ErrBatch
	}
	x.Kind = BatchKind(b[6])
	x.First, x.Final, x.Exact, x.NewEpoch = b[7]&flagFirst != 0, b[7]&flagFinal != 0, b[7]&flagExact != 0, b[7]&flagNewEpoch != 0
	r := reader{b: b[batchHead:]}
	x.Cluster, x.Epoch = r.name(), r.name()
	x.ID = ID{r.term(), r.number()}
	x.Prev = r.number()
	x.Last = x.Prev + r.number()
	x.Time = int64(r.number())
	for range r.count() {
		x.Sources = append(x.Sources, Source{r.name(), r.number()})
	}
	x.History = r.history()
	x.Retired, x.Joined = r.members(), r.members()
	x.Data = r.b
	switch {
	case r.failed || x.Last < x.Prev || !x.valid():
		return ErrBatch
	case x.Cluster != cluster:
		return fmt.Errorf("%w: %q, this node belongs to %q", ErrCluster, x.Cluster, cluster)
	}
	return nil
}

// valid reports whether the parts of a batch agree.
func (x *Batch) valid() bool {
	if x.Kind != TermRow {
		return (x.Kind == NewRows || x.Kind == OldRows) && x.ID.Number > 0
	}
	h := &x.History
	return x.ID.Number == 0 && h.Newest() == x.ID.Term && h.Epoch == x.Epoch && h.ordered()
}

// ordered reports whether the terms and positions of a history increase.
func (h *History) ordered() bool {
	for i := 1; i < len(h.Starts); i++ {
		a, b := &h.Starts[i-1], &h.Starts[i]
		if a.Term.Number >= b.Term.Number || a.After > b.After {
			return false
		}
	}
	return true
}

// reader decodes the fields of a batch. After an error, failed is set and all values are zero.
type reader struct {
	b      []byte
	failed bool
}

func (r *reader) fail() {
	r.failed, r.b = true, nil
}

func (r *reader) number() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// count returns the length of a list, of which each entry takes at least a byte.
func (r *reader) count() int {
	n := r.number()
	if n > maxNames || n > uint64(len(r.b)) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *reader) name() string {
	if len(r.b) == 0 || len(r.b) <= int(r.b[0]) {
		r.fail()
		return ""
	}
	n := 1 + int(r.b[0])
	s := string(r.b[1:n])
	r.b = r.b[n:]
	return s
}

func (r *reader) term() (t Term) {
	t.Number = r.number()
	if len(r.b) < 8 {
		r.fail()
		return Term{}
	}
	t.Leader = binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return t
}

func (r *reader) history() (h History) {
	h.Epoch = r.name()
	for range r.count() {
		h.Starts = append(h.Starts, Start{r.term(), r.number()})
	}
	return h
}

func (r *reader) members() (list []Member) {
	for range r.count() {
		list = append(list, Member{r.name(), r.number()})
	}
	return list
}
