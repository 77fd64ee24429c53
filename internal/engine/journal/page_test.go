package journal

import (
	"math"
	"os"
	"testing"
	"time"
)

// TestPage writes a day of 65,000 rows of 400 instruments, or 26 million in full, closes it, and
// reads pages of up to 10,000 trades of one of them. It logs how long that takes and checks the
// rows.
func TestPage(t *testing.T) {
	rows := 65_000
	if os.Getenv("RUEDA_SOAK") != "" {
		rows = 26_000_000
	}
	readPages(t, rows)
}

// TestPageE2E does the same with more rows, without the race detector.
func TestPageE2E(t *testing.T) { readPages(t, 1_300_000) }

func readPages(t *testing.T, rows int) {
	cfg := testConfig(t)
	src := newRowSource(24, 400)
	src.clone, src.lead, src.step = false, 20, 3*3_600_000_000_000/int64(rows)
	j := begin(t, cfg, src)
	logTime(t, "rows made and written", func() {
		for i := range rows {
			j.Append(src.next(false))
			if i%64 == 63 {
				j.Commit()
			}
		}
		j.Commit()
	})
	size := j.Days()[0].Bytes
	trades := src.counts[0].N[Trades]
	page := min(10_000, trades/2)
	p := pager{Series{Instrument: src.defs[0].ID}, trades, page}
	p.all(t, j, "live day")
	logTime(t, "opened next to the writer, which makes the index of the day", func() {
		r, err := OpenReader(t.Context(), cfg.Folder)
		if err == nil {
			err = r.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	book := logTime(t, "book in the middle of the live day", func() {
		if _, err := j.BookAt(t.Context(), p.series.Instrument, (start+src.at)/2, math.MaxInt64); err != nil {
			t.Fatal(err)
		}
	})
	src.at += dayNanos
	src.write(j, 1, false)
	for j.CheckpointPending() {
		j.Commit()
	}
	logTime(t, "day closed", func() {
		if err := j.closeDays(t.Context(), testEncoder(t)); err != nil {
			t.Fatal(err)
		}
	})
	p.all(t, j, "closed day")
	d := j.Days()[0]
	t.Logf("figure: %d rows, %d trades of the instrument, page of %d; %.1f bytes a row, %.1f when closed; book %v",
		d.Rows, trades, page, float64(size)/float64(rows), float64(d.Bytes)/float64(rows), book)
	if d.Rows != uint64(rows) || !d.Closed {
		t.Errorf("day %+v", d)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	logTime(t, "opened again", func() { j = mustOpen(t, cfg) })
	p.all(t, j, "closed day, opened again")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// logTime logs the duration of f.
func logTime(t *testing.T, what string, f func()) time.Duration {
	t.Helper()
	from := time.Now()
	f()
	d := time.Since(from)
	t.Logf("figure: %s: %v", what, d)
	return d
}

// pager reads pages of a series.
type pager struct {
	series     Series
	rows, page uint64
}

func (p pager) all(t *testing.T, j *Journal, what string) {
	t.Helper()
	p.read(t, j, what+": the first page", Range{}, 1, p.page)
	p.read(t, j, what+": a page in the middle", Range{AfterN: p.rows / 3}, p.rows/3+1, p.rows/3+p.page)
	p.read(t, j, what+": the last page, backwards", Range{Reverse: true}, p.rows, p.rows-p.page+1)
}

func (p pager) read(t *testing.T, j *Journal, what string, r Range, first, last uint64) {
	t.Helper()
	var n, from, to uint64
	logTime(t, what, func() {
		err := j.Read(t.Context(), p.series, r, func(_ string, r *Row) bool {
			if n++; n == 1 {
				from = r.N
			}
			to = r.N
			return n < p.page
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	if n != p.page || from != first || to != last {
		t.Errorf("%s: %d rows, N %d to %d; want %d, %d to %d", what, n, from, to, p.page, first, last)
	}
}
