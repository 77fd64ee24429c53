package replay

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/feed/feedtest"
	"github.com/ruedahq/rueda/internal/data/replay/replaytest"
)

// framing reads where the records of a format begin, and nothing of their content. It is made from
// the specification and shares no code with the decoders.
type framing struct {
	head func(data []byte) int
	// next returns the size of the first part of data, how many records it has, and where its body
	// begins. The size is 0 if the rest is not a whole part.
	next func(data []byte) (size, records, body int)
}

func noHead([]byte) int { return 0 }

var (
	framedLines = framing{noHead, func(data []byte) (int, int, int) {
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			return i + 1, 1, 0
		}
		return len(data), 1, 0
	}}
	framedITCH = framing{noHead, func(data []byte) (int, int, int) {
		if len(data) < 3 {
			return 0, 0, 0
		}
		size := int(binary.BigEndian.Uint16(data))
		if size == 0 { // some files have zeros, and the type determines the length
			size = map[byte]int{'S': 12, 'R': 39, 'H': 25, 'A': 36, 'E': 31, 'X': 23, 'D': 19}[data[2]]
		}
		return 2 + size, 1, 2
	}}
	framedDBN = framing{func(data []byte) int { return 8 + int(binary.LittleEndian.Uint32(data[4:])) }, func(data []byte) (int, int, int) {
		return int(data[0]) * 4, 1, 1
	}}
	framedPcap = framing{func([]byte) int { return 24 }, func(data []byte) (int, int, int) {
		if len(data) < 16 {
			return 0, 0, 0
		}
		size := int(binary.LittleEndian.Uint32(data[8:]))
		if len(data) < 16+size {
			return 0, 0, 0
		}
		return 16 + size, segmentRecords(data[16 : 16+size]), 16 + 14 + 20 + 8 + 40
	}}
	framedBlocks = framing{noHead, func(data []byte) (int, int, int) {
		le := binary.LittleEndian
		if len(data) < 12 {
			return 0, 0, 0
		}
		size := int(le.Uint32(data[4:]))
		if le.Uint32(data) != 6 || len(data) < size { // another block than a packet
			return size, 0, size
		}
		captured := int(le.Uint32(data[20:]))
		if captured > size-32 {
			return 0, 0, 0
		}
		return size, segmentRecords(data[28 : 28+captured]), 28 + 14 + 20 + 8 + 40
	}}
)

// segmentRecords returns how many messages the segment of IEX-TP in an Ethernet frame has. Any
// other packet is one record, and so is a segment that was not captured in full.
func segmentRecords(frame []byte) int {
	be, le := binary.BigEndian, binary.LittleEndian
	const ip, udp = 14, 14 + 20
	if len(frame) < udp+8+40 || be.Uint16(frame[12:]) != 0x0800 || frame[ip] != 0x45 || frame[ip+9] != 17 || be.Uint16(frame[ip+6:])&0x3fff != 0 {
		return 1
	}
	end := min(len(frame), ip+int(be.Uint16(frame[ip+2:])), udp+int(be.Uint16(frame[udp+4:])))
	if end < udp+8+40 {
		return 1
	}
	segment := frame[udp+8 : end]
	if p := le.Uint16(segment[2:]); le.Uint16(segment) != 1 || p != replaytest.TOPS && p != replaytest.DEEP || len(segment) < 40+int(le.Uint16(segment[12:])) {
		return 1
	}
	return int(le.Uint16(segment[14:]))
}

// part is a part of a file between two boundaries.
type part struct{ at, end, records, body int }

// parts returns the parts of a file, up to the first one that is not whole.
func (f *framing) parts(data []byte) (list []part) {
	for at := f.head(data); at < len(data); {
		size, records, body := f.next(data[at:])
		if size <= 0 || at+size > len(data) {
			break
		}
		list = append(list, part{at, at + size, records, at + min(body, size)})
		at += size
	}
	return list
}

// framedSamples returns a file of each format, and how it is framed. Journals are not among them:
// their rows are in compressed blocks.
func framedSamples(t *testing.T) (list []*sample, by map[*sample]framing) {
	by = map[*sample]framing{}
	add := func(s *sample, f framing, shorten bool) {
		if shorten {
			s.shorten(t)
		}
		list, by[s] = append(list, s), f
	}
	for _, s := range samples() {
		f := framedLines
		switch {
		case s.name == "ITCH":
			f = framedITCH
		case s.name == "DEEP":
			f = framedPcap
		case strings.HasPrefix(s.name, "MB"):
			f = framedDBN
		}
		add(s, f, true)
	}
	add(sampleTOPS(), framedBlocks, true)
	add(sampleOpenEvents(), framedDBN, false)
	add(sampleUnknownBook(), framedDBN, false)
	add(sampleBinance(false), framedLines, false)
	add(sampleBinance(true), framedLines, false)
	add(&sample{name: "recording", data: shortRecording()}, framedLines, false)
	return list, by
}

// sampleBinance returns a capture with messages of all kinds.
func sampleBinance(futures bool) *sample {
	rng := rand.New(rand.NewPCG(3, 11))
	w := replaytest.Binance{Futures: futures}
	randomBinance(rng, &w, 150)
	w.Other(2*begin, replaytest.PartialBook)
	w.Other(2*begin, `{"e":"unknown"}`)
	return &sample{name: map[bool]string{false: "Binance spot", true: "Binance futures"}[futures], data: w.Bytes}
}

// sampleOpenEvents returns a file of mixed types of DBN that ends within events, with records after
// its last event.
func sampleOpenEvents() *sample {
	w := dbnHeader(replaytest.SchemaMixed)
	record := func(instrument uint32, action byte, order uint64, flags byte) *replaytest.Record {
		return &replaytest.Record{Instrument: instrument, Time: opening, Receive: opening, Action: action, Side: 'B', OrderID: order, Price: 1e9, Size: 1, Flags: flags}
	}
	w.MBO(record(100, 'R', 0, replaytest.Last))
	w.MBO(record(101, 'R', 0, replaytest.Last))
	for i := range uint64(20) {
		w.MBO(record(100, 'A', i, replaytest.Last))
		w.Levels(record(100, 'T', 0, replaytest.Last), 0)
		w.Levels(record(105, 'A', 0, replaytest.Last), 10)
		w.Other(record(100, 'A', 0, 0), 0x18, 64)
		w.Other(record(100, 'A', 0, 0), 0xc3, 80)
	}
	for i := range uint64(5) {
		w.MBO(record(100+uint32(i%2), 'T', 0, 0))
		w.MBO(record(100+uint32(i%2), 'A', 100+i, 0))
		w.MBO(record(102, 'A', i, 0))
	}
	return &sample{name: "open events", data: w.Bytes}
}

// sampleUnknownBook returns a file of MBO that becomes no event at all.
func sampleUnknownBook() *sample {
	w := dbnHeader(replaytest.SchemaMBO)
	for i := range uint64(50) {
		w.MBO(&replaytest.Record{Instrument: 100, Time: opening, Receive: opening, Action: 'A', Side: 'B', OrderID: i, Price: 1e9, Size: 1, Flags: replaytest.Last})
	}
	return &sample{name: "unknown book", data: w.Bytes}
}

// mutateBody changes some bytes of the bodies of a file or, if frames is set, of its frames.
func mutateBody(rng *rand.Rand, data []byte, list []part, frames bool) []byte {
	data = slices.Clone(data)
	for range 1 + rng.IntN(3) {
		p := list[rng.IntN(len(list))]
		from, to := p.body, p.end
		if frames && p.body > p.at {
			from, to = p.at, p.body
		}
		if from == to {
			continue
		}
		at := from + rng.IntN(to-from)
		c := byte(1 << rng.IntN(8))
		if rng.IntN(2) == 0 {
			c = data[at] ^ "0159-,\x00\xff"[rng.IntN(8)]
		}
		if b := data[at] ^ c; data[at] != '\n' && b != '\n' {
			data[at] = b
		}
	}
	return data
}

// checkCounts plays a file and compares the number of its records with that of the framing. If the
// file is damaged, the records before the damage are counted, and the error has the bytes of the
// rest. checkCounts returns whether the file was opened, and whether it was damaged.
func checkCounts(t *testing.T, path string, data []byte, f framing) (opened, damaged bool) {
	t.Helper()
	source, err := Open(path, Config{Speed: -1, FromName: true})
	if err != nil {
		return false, false
	}
	err = source.Run(t.Context(), new(feedtest.Recorder))
	s, want, most := source.Stats(), 0, 0
	bad, damaged := errors.AsType[*Error](err)
	if _, unused := errors.AsType[*UnusedError](err); err != nil && !damaged && !unused {
		t.Fatal(err)
	}
	if damaged && bad.File != path { // the order book file of LOBSTER
		if s.Used+sum(&s) != s.Lines || s.Lines != bad.Line && s.Lines != bad.Line-1 {
			t.Errorf("%d records are counted, %v", s.Lines, err)
		}
		return true, true
	}
	if damaged && bad.Rest != int64(len(data))-bad.Offset {
		t.Errorf("%v: %d bytes are left", err, int64(len(data))-bad.Offset)
	}
	whole := false
	for _, p := range f.parts(data) {
		if damaged && (bad.Offset == int64(p.at) || bad.Line > 0 && bad.Offset >= int64(p.at) && bad.Offset < int64(p.end)) {
			whole, most = true, want+max(0, p.records-1) // the messages of a packet before the damaged one are played
			break
		}
		want += p.records
		whole = whole || int64(p.end) == int64(len(data)) && !damaged
		if damaged && bad.Offset == int64(p.end) {
			whole = true // what follows is not framed
		}
	}
	if s.Used+sum(&s) != s.Lines || s.Lines < want || s.Lines > max(want, most) || !whole {
		t.Errorf("%d records are counted, %d used and %s; the framing has %d up to the end or %v", s.Lines, s.Used, s.Skipped.String(), want, err)
	}
	return true, damaged
}

func testFraming(t *testing.T, mutants int) {
	list, by := framedSamples(t)
	for _, s := range list {
		t.Run(s.name, func(t *testing.T) {
			path := s.save(t, nil)
			if opened, damaged := checkCounts(t, path, s.data, by[s]); !opened || damaged {
				t.Fatalf("opened %v, damaged %v", opened, damaged)
			}
			f := by[s]
			rng, opens, damages := rand.New(rand.NewPCG(7, 7)), 0, 0
			for i := range mutants {
				data := mutateBody(rng, s.data, f.parts(s.data), i%8 == 0)
				if err := os.WriteFile(path, data, 0o600); err != nil {
					t.Fatal(err)
				}
				opened, damaged := checkCounts(t, path, data, f)
				if opened {
					opens++
				}
				if damaged {
					damages++
				}
				if t.Failed() {
					t.Fatalf("mutant %d", i)
				}
			}
			t.Logf("figure: of %d mutants of %s, %d could be opened and %d were damaged", mutants, s.name, opens, damages)
			if opens < mutants*3/4 {
				t.Errorf("%d of %d mutants could be opened", opens, mutants)
			}
		})
	}
}

// TestFraming checks that the records of each format that are used or skipped are all that the file
// has, as a reader counts them that knows only their framing.
func TestFraming(t *testing.T) { testFraming(t, 40) }

// TestFramingE2E is TestFraming with more mutants.
func TestFramingE2E(t *testing.T) { testFraming(t, 1000) }

// TestFramingOfFiles counts the records of files that showed faults.
func TestFramingOfFiles(t *testing.T) {
	folder := filepath.Dir(capture(t, filepath.Join("fidelity", "aggtrade.jsonl")))
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	opens := 0
	for _, path := range files {
		f := framedLines
		switch filepath.Ext(path) {
		case ".dbn":
			f = framedDBN
		case ".NASDAQ_ITCH50":
			f = framedITCH
		case "":
			continue // a folder
		}
		if opened, _ := checkCounts(t, path, read(t, path), f); opened {
			opens++
		}
	}
	if opens < 10 {
		t.Errorf("%d of %d files could be opened", opens, len(files))
	}
}
