package journal

import (
	"errors"
	"io"
	"runtime"
	"strconv"
	"testing"

	"github.com/ruedahq/rueda/market"
)

// benchRows is a tape of the realistic mix.
func benchRows(n int) (*tape, []Row) {
	t := newTape(1, 400)
	for i := range t.numbers {
		t.numbers[i] = uint32(i + 1)
	}
	for range n {
		t.next(false)
	}
	return t, t.rows
}

// BenchmarkWrite is Append and Commit of 85 % book updates of one level, 7 % trades and 8 % quotes of 400
// instruments, with a commit every so many rows: a sweep of a busy shard brings some hundred.
func BenchmarkWrite(b *testing.B) {
	tape, rows := benchRows(1 << 16)
	tape.rows = nil
	for _, every := range []uint64{1, 16, 64, 256} {
		b.Run(strconv.FormatUint(every, 10), func(b *testing.B) {
			j := begin(b, testConfig(b), tape)
			j.Append(&rows[0])
			j.Commit()
			from := j.offset()
			n := uint64(0)
			b.ReportAllocs()
			for b.Loop() {
				r := &rows[n%uint64(len(rows))]
				r.Position += uint64(len(rows))
				r.At += 1_000_000
				r.Time += 1_000_000
				j.Append(r)
				if n++; n%every == 0 {
					j.Commit()
				}
			}
			j.Commit()
			bytes := int64(0)
			for _, v := range j.views("") {
				bytes += v.end
			}
			b.ReportMetric(float64(bytes-from)/float64(n), "bytes/row")
			if err := j.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func benchJournal(b *testing.B, n int) (*Journal, *tape) {
	tape, rows := benchRows(n)
	j := begin(b, testConfig(b), tape)
	for i := range rows {
		j.Append(&rows[i])
		if i%16 == 15 {
			j.Commit()
		}
	}
	j.Commit()
	// What the collector would go through while it is being measured.
	tape.rows = nil
	runtime.GC()
	return j, tape
}

// BenchmarkScan is a scan of everything from an uncompressed segment, and the mere copy of the same bytes out of
// the page cache, which is the floor of any reader that calls read(2).
func BenchmarkScan(b *testing.B) {
	const rows = 1 << 20
	j, _ := benchJournal(b, rows)
	defer j.Close()
	perRow := func(b *testing.B, n int) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/row")
	}
	b.Run("rows", func(b *testing.B) {
		b.ReportAllocs()
		sum, n := market.Price(0), 0
		for b.Loop() {
			err := j.Scan(b.Context(), Place{}, nil, allKinds, func(r *Row) bool {
				sum += r.Price
				n++
				return true
			})
			if err != nil {
				b.Fatal(err)
			}
		}
		perRow(b, n)
	})
	b.Run("copy", func(b *testing.B) {
		buf := make([]byte, maxAhead)
		n := 0
		for b.Loop() {
			for _, v := range j.views("") {
				file, err := j.openSegment(v.segment)
				if err != nil {
					b.Fatal(err)
				}
				for at := int64(0); at < v.end; {
					read, err := file.ReadAt(buf, at)
					if at += int64(read); err != nil && !errors.Is(err, io.EOF) || read == 0 {
						b.Fatal(err)
					}
				}
				if err := file.Close(); err != nil {
					b.Fatal(err)
				}
			}
			n += rows
		}
		perRow(b, n)
	})
}

// BenchmarkReadLive is a page of the trades of one instrument from a day that is not closed.
func BenchmarkReadLive(b *testing.B) {
	j, tape := benchJournal(b, 1<<20)
	defer j.Close()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n = 0
		err := j.Read(b.Context(), Series{Instrument: tape.defs[7].ID}, Range{}, func(string, *Row) bool {
			n++
			return true
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/row")
}
