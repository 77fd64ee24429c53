package export

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

// lose makes the journal lose the rows that are added by rows, as on a full disk that later has
// space again. A folder with the name of the next segment prevents the journal from creating it, so
// that it suspends.
func (f *fixture) lose(rows func()) {
	f.t.Helper()
	obstacle := filepath.Join(f.folder, testDate, "00000002.seg")
	if err := os.Mkdir(obstacle, 0o700); err != nil {
		f.t.Fatal(err)
	}
	suspended := func() bool {
		_, _, ok := f.journal.Suspended()
		return ok
	}
	for i := int64(0); !suspended(); i++ {
		f.add(ggal, journal.Row{Kind: journal.Trade, Time: noon(i), Price: market.Scale, Size: market.Scale})
		f.journal.Commit()
	}
	rows()
	if err := os.Remove(obstacle); err != nil {
		f.t.Fatal(err)
	}
	time.Sleep(2 * time.Second) // Run checks for space
	f.journal.Commit()
	if suspended() {
		f.t.Fatal("there is room, and the journal does not go on")
	}
}

// TestDepthAfterGap has books that change while the disk is full. The checkpoint at the end of the
// gap has those, and only those, and the ones that are unknown.
func TestDepthAfterGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixtureOf(t, 1<<12, instrument("GGAL", "BYMA", "24hs"), instrument("AL30", "BYMA", "CI"), instrument("GAS", "SIM", "CI"))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.journal.Run(ctx) }()
		for i, id := range []string{ggal, al30, gas} {
			f.add(id, journal.Row{Kind: journal.BookState, Time: noon(int64(i)), Bids: levels("70 5 1")})
		}
		f.journal.Commit()
		f.lose(func() {
			f.add(ggal, journal.Row{Kind: journal.BookUpdate, Time: noon(1000), Bids: levels("71 6 1")})
			f.add(ggal, journal.Row{Kind: journal.BookUpdate, Time: noon(1001), Bids: levels("70 0")})
			f.states[ggal] = journal.Row{Kind: journal.BookState, N: 3, Time: noon(1001), At: noon(1151), Bids: levels("71 6 1")}
			f.states[al30] = journal.Row{Kind: journal.BookLost, N: 1, Time: noon(1), At: noon(151), Reason: "not_known"}
			f.states[gas] = journal.Row{Kind: journal.BookState, N: 1, Time: noon(2), At: noon(152), Bids: levels("70 5 1")}
		})
		f.add(ggal, journal.Row{Kind: journal.BookUpdate, Time: noon(2000), Bids: levels("72 7 1")})
		f.add(al30, journal.Row{Kind: journal.BookState, Time: noon(2001), Bids: levels("73 8 1")})
		f.add(gas, journal.Row{Kind: journal.BookUpdate, Time: noon(2002), Bids: levels("74 9 1")})
		f.journal.Commit()
		depthWithGap(t, f)
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	})
}

func depthWithGap(t *testing.T, f *fixture) {
	t.Helper()
	gaps := 0
	if err := f.archive.Scan(t.Context(), journal.ScanStart{}, nil, journal.Kinds(journal.Gap), func(*journal.Row) bool {
		gaps++
		return true
	}); err != nil || gaps != 1 {
		t.Fatalf("%d holes, want 1: %v", gaps, err)
	}
	var got []string
	for _, row := range readParquet(t, f.write(Request{Type: Depth, Format: Parquet, Unfinished: true}))[1:] {
		at, err := time.Parse(time.RFC3339Nano, row[0])
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(at.UnixNano()-noon(0), " ", row[2], " ", row[6], " ", strings.Join(row[8:], " ")))
	}
	want := []string{
		"1 AL30|BYMA|CI 1 state B 70 5 1",
		"1 AL30|BYMA|CI 1 lost   0 ",
		"2001 AL30|BYMA|CI 2 state B 73 8 1",
		"2 GAS|SIM|CI 1 state B 70 5 1",
		"2002 GAS|SIM|CI 2 update B 74 9 1",
		"0 GGAL|BYMA|24hs 1 state B 70 5 1",
		"1001 GGAL|BYMA|24hs 3 state B 71 6 1",
		"2000 GGAL|BYMA|24hs 4 update B 72 7 1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	_, lost, err := Write(t.Context(), io.Discard, f.archive, Request{Type: Depth, Date: testDate, Format: CSV, Unfinished: true})
	id, _ := market.ParseInstrumentID(ggal)
	if missing := []Lost{{Instrument: id, Epoch: f.archive.Epoch(), Range: Range{From: 2, To: 3, Start: noon(0), End: noon(1001)}}}; err != nil || !slices.Equal(lost, missing) {
		t.Errorf("missing: %+v, %v, want %+v", lost, err, missing)
	}
	lines := string(f.write(Request{Type: Depth, Format: NDJSON, Unfinished: true}))
	for _, want := range []string{
		`{"type":"O","S":"GGAL","I":"GGAL|BYMA|24hs","N":3,"T":"2026-11-20T12:00:00.000001001Z","R":true,"DL":0,"B":[[71,6,1]],"A":[],"K":CRC(7100:6;||)}`,
		`{"type":"O","S":"GGAL","I":"GGAL|BYMA|24hs","N":4,"T":"2026-11-20T12:00:00.000002000Z","D":150,"L":3,"B":[[72,7,1]],"K":CRC(7200:7;7100:6;||)}`,
		`{"type":"O","S":"GAS","I":"GAS|SIM|CI","N":2,"T":"2026-11-20T12:00:00.000002002Z","D":150,"L":1,"B":[[74,9,1]],"K":CRC(7400:9;7000:5;||)}`,
	} {
		before, sum, _ := strings.Cut(want, "CRC(")
		sum, _, _ = strings.Cut(sum, ")")
		if want = fmt.Sprint(before, crc32.ChecksumIEEE([]byte(sum)), "}"); !strings.Contains(lines, want+"\n") {
			t.Errorf("%s is not there:\n%s", want, lines)
		}
	}
}
