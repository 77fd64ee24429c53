package export

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

// TestDepthOfMissingSegments removes each segment of a journal of three days but the first. The
// files of depth of the days have, of each book, all rows, or the ranges of those that are missing.
func TestDepthOfMissingSegments(t *testing.T) {
	f := newFixtureOf(t, 4<<10, instrument("GGAL", "BYMA", "24hs"), instrument("AL30", "BYMA", "CI"), instrument("GAS", "SIM", "CI"))
	begin := noon(-10 * 3600e9)
	dates := []string{testDate, "2026-11-21", "2026-11-22"}
	add := func(id string, at int64) {
		f.add(id, journal.Row{Kind: journal.BookState, Time: at, Bids: levels(fmt.Sprint(70+f.n[id+" depth"]%9, " 5 1"))})
		list := f.rows[id+" depth"]
		f.states[id] = list[len(list)-1]
	}
	for day := range dates {
		for i := range 250 {
			at := begin + int64(day)*dayLong + int64(i)*int64(5*time.Minute)
			add(ggal, at)
			if i%60 == 30 { // some segments have none
				add(al30, at+1)
			}
			if i == 249 {
				add(gas, at+2)
			}
			f.journal.Commit()
		}
	}
	if err := f.journal.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(f.folder, "2026-*", "*.seg"))
	if err != nil || len(files) < 12 {
		t.Fatalf("segments %v, %v", files, err)
	}
	for _, file := range files[1:] {
		old := file + ".old"
		if err := os.Rename(file, old); err != nil {
			t.Fatal(err)
		}
		r, err := journal.OpenReader(t.Context(), f.folder)
		if err != nil {
			t.Fatal(err)
		}
		all := 0
		for _, date := range dates {
			all += f.wantDepth(r.Archive, date, fmt.Sprintf("%s of %d segments, %s", file[len(f.folder):], len(files), date))
		}
		if all == 0 {
			t.Errorf("%s: nothing is missing", file)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(old, file); err != nil {
			t.Fatal(err)
		}
	}
}

// wantDepth checks a file of depth, and returns the number of ranges that are missing.
func (f *fixture) wantDepth(j *journal.Archive, date, what string) (ranges int) {
	f.t.Helper()
	var out bytes.Buffer
	_, lost, err := Write(f.t.Context(), &out, j, Request{Type: Depth, Date: date, Format: CSV, Unfinished: true})
	if err != nil {
		f.t.Fatal(err)
	}
	table, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		f.t.Fatal(err)
	}
	have := map[string]bool{}
	id, seq := slices.Index(table[0], "instrument"), slices.Index(table[0], "seq")
	for _, row := range table[1:] {
		have[row[id]+" "+row[seq]] = true
	}
	stored := map[string]bool{} // rows of the journal
	for _, name := range []string{ggal, al30, gas} {
		in, _ := market.ParseInstrumentID(name)
		_ = j.Read(f.t.Context(), journal.Series{Instrument: in, Channel: journal.Books}, journal.Range{}, func(_ string, r *journal.Row) bool {
			stored[name+" "+strconv.FormatUint(r.N, 10)] = true
			return true
		})
		for _, r := range f.rows[name+" depth"] {
			key := name + " " + strconv.FormatUint(r.N, 10)
			listed := slices.ContainsFunc(lost, func(l Lost) bool {
				return l.Instrument.String() == name && r.N >= l.From && (r.N <= l.To || l.To == 0)
			})
			switch {
			case dateOf(r.At) == date && !have[key] && !listed:
				f.t.Errorf("%s: %s is neither there nor missing: %+v", what, key, lost)
				return ranges
			case listed && stored[key]:
				f.t.Errorf("%s: %s is stored, and listed as missing: %+v", what, key, lost)
				return ranges
			}
		}
	}
	return ranges + len(lost)
}
