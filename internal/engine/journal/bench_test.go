package journal

import (
	"errors"
	"io"
	"runtime"
	"strconv"
	"testing"

	"github.com/ruedahq/rueda/market"
)

// benchRows returns rows of the realistic mix.
func benchRows(n int) (*rowSource, []Row) {
	t := newRowSource(1, 400)
	t.resumes = false
	for i := range t.numbers {
		t.numbers[i] = uint32(i + 1)
	}
	for range n {
		t.next(false)
	}
	return t, t.rows
}

// BenchmarkWrite measures Append and Commit with 85 % book updates of one level, 7 % trades and 8 %
// quotes of 400 instruments. A flush of a busy shard commits some hundred rows.
func BenchmarkWrite(b *testing.B) {
	src, rows := benchRows(1 << 16)
	src.rows = nil
	for _, every := range []uint64{1, 16, 64, 256} {
		b.Run(strconv.FormatUint(every, 10), func(b *testing.B) {
			j := begin(b, testConfig(b), src)
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

func benchJournal(b *testing.B, n int) (*Journal, *rowSource) {
	src, rows := benchRows(n)
	j := begin(b, testConfig(b), src)
	for i := range rows {
		j.Append(&rows[i])
		if i%16 == 15 {
			j.Commit()
		}
	}
	j.Commit()
	// Collect now what the collector would otherwise scan during the measurement.
	src.rows = nil
	runtime.GC()
	return j, src
}

// BenchmarkScan measures a scan of an uncompressed segment, and copying the same bytes out of the
// page cache, which is the lower limit of any reader with read(2).
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
			err := j.Scan(b.Context(), ScanStart{}, nil, allKinds, func(r *Row) bool {
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

// BenchmarkReadLive measures a page of the trades of one instrument from a day that is not closed.
func BenchmarkReadLive(b *testing.B) {
	j, src := benchJournal(b, 1<<20)
	defer j.Close()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n = 0
		err := j.Read(b.Context(), Series{Instrument: src.defs[7].ID}, Range{}, func(string, *Row) bool {
			n++
			return true
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/row")
}
