package replay_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/data/replay"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

// writeWithGap writes a journal that loses what the second part publishes, as on a full disk that
// later has space again. A folder with the name of the next segment prevents the journal from
// creating it, so that it suspends.
func writeWithGap(t *testing.T, folder, date string, parts [3][]market.Event, instruments ...market.Instrument) {
	j, err := journal.Open(t.Context(), journal.Config{Folder: folder, Segment: 1 << 12, BootID: "boot"})
	if err != nil {
		t.Fatal(err)
	}
	h := hub.New(hub.Config{Journal: j})
	if err := h.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range instruments {
		if _, err := h.Define(instruments[i]); err != nil {
			t.Fatal(err)
		}
	}
	publish := func(events ...market.Event) {
		if err := h.Publish(events); err != nil {
			t.Fatal(err)
		}
		h.Commit()
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- j.Run(ctx) }()
	publish(parts[0]...)
	obstacle := filepath.Join(folder, date, "00000002.seg")
	if err := os.Mkdir(obstacle, 0o700); err != nil {
		t.Fatal(err)
	}
	at := parts[0][len(parts[0])-1].Time
	for _, _, ok := j.Suspended(); !ok; _, _, ok = j.Suspended() {
		publish(market.Event{Kind: market.KindTrade, Time: at, Price: market.Scale, Size: market.Scale})
	}
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second) // Run checks for space
	publish(parts[1]...)
	if _, err, ok := j.Suspended(); ok {
		t.Fatalf("there is room, and the journal does not go on: %v", err)
	}
	publish(parts[2]...)
	cancel()
	if err := errors.Join(<-ended, j.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestJournalWithGap plays a journal that lost rows in the middle. The checkpoint at the end of the
// gap restores the books that changed meanwhile and reports those that are unknown. A book that did
// not change is not published again.
func TestJournalWithGap(t *testing.T) {
	begin := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).UnixNano()
	var list []market.Instrument
	for _, symbol := range []string{"CHANGED", "LOST", "QUIET", "FOUND"} {
		list = append(list, market.Instrument{ID: market.InstrumentID{Symbol: symbol, Market: "SIM", Term: "CI"}, VirtualClock: true, Listed: begin})
	}
	event := func(kind market.Kind, handle market.Handle, price int, size int) market.Event {
		begin++
		e := market.Event{Kind: kind, Handle: handle, Time: begin}
		if kind != market.KindGap {
			e.Bids = []market.Level{{Price: market.Price(price) * market.Scale, Size: market.Size(size) * market.Scale}}
		}
		return e
	}
	const changed, lost, quiet, found = 0, 1, 2, 3
	var parts [3][]market.Event
	for h := range list {
		parts[0] = append(parts[0], event(market.KindSnapshot, market.Handle(h), 10, 1))
	}
	parts[0] = append(parts[0], event(market.KindGap, found, 0, 0))
	parts[1] = []market.Event{
		event(market.KindUpdate, changed, 10, 0), event(market.KindUpdate, changed, 11, 2),
		event(market.KindGap, lost, 0, 0), event(market.KindSnapshot, found, 20, 3),
	}
	parts[2] = []market.Event{
		event(market.KindUpdate, changed, 9, 4), event(market.KindUpdate, quiet, 9, 5), event(market.KindUpdate, found, 19, 6),
	}
	first, second := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	synctest.Test(t, func(t *testing.T) { writeWithGap(t, first, "2026-11-20", parts, list...) })
	source, err := replay.Open(first, replay.Config{Speed: -1})
	if err != nil {
		t.Fatal(err)
	}
	writeJournal(t, second, source)
	if s := source.Stats(); s.Snapshots != 4+2 || s.Gaps != 1+1 || s.Rejected != 0 || s.Skipped.Lost() != 1 {
		t.Errorf("played %+v", s)
	}
	r, err := journal.OpenReader(t.Context(), second)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for h, want := range map[int][][2]int{changed: {{11, 2}, {9, 4}}, quiet: {{10, 1}, {9, 5}}, found: {{20, 3}, {19, 6}}} {
		var bids []market.Level
		for _, l := range want {
			bids = append(bids, market.Level{Price: market.Price(l[0]) * market.Scale, Size: market.Size(l[1]) * market.Scale})
		}
		b, err := r.BookAt(t.Context(), list[h].ID, math.MaxInt64, math.MaxInt64)
		if err != nil || !slices.Equal(b.Bids, bids) {
			t.Errorf("%v is %+v, want %+v: %v", list[h].ID, b.Bids, bids, err)
		}
	}
	if b, err := r.BookAt(t.Context(), list[lost].ID, math.MaxInt64, math.MaxInt64); !errors.Is(err, journal.ErrNoBook) {
		t.Errorf("the book that was lost is %+v, %v", b, err)
	}
}

// TestJournalEnds plays journals of some books, and one whose newest segment is removed. All rows
// count, also those after the last one that is played, and the place where rows are missing.
func TestJournalEnds(t *testing.T) {
	for _, books := range []int{255, 256, 257} {
		playBooks(t, books, 0)
	}
	playBooks(t, 500, 1)
}

// playBooks plays a journal of some books, without some of the newest segments.
func playBooks(t *testing.T, books, removed int) {
	t.Helper()
	folder := t.TempDir()
	j, err := journal.Open(t.Context(), journal.Config{Folder: folder, Segment: 1 << 12})
	if err != nil {
		t.Fatal(err)
	}
	h := hub.New(hub.Config{Journal: j})
	if err := h.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).UnixNano()
	id := market.InstrumentID{Symbol: "BOOK", Market: "SIM", Term: "CI"}
	handle, err := h.Define(market.Instrument{ID: id, VirtualClock: true, Listed: at})
	if err != nil {
		t.Fatal(err)
	}
	for i := range market.Price(books) {
		e := market.Event{Kind: market.KindSnapshot, Handle: handle, Time: at + int64(i), Bids: []market.Level{{Price: (1 + i) * market.Scale, Size: market.Scale}}}
		if err := h.Publish([]market.Event{e}); err != nil {
			t.Fatal(err)
		}
		h.Commit()
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(folder, "2026-*", "*.seg"))
	if err != nil || len(files) < 3 {
		t.Fatalf("segments %v, %v", files, err)
	}
	for _, name := range files[len(files)-removed:] {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	r, err := journal.OpenReader(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	err = r.Scan(t.Context(), journal.ScanStart{}, nil, journal.Kinds(journal.Trade, journal.Status, journal.Quote, journal.BookState, journal.BookUpdate, journal.BookLost), func(*journal.Row) bool {
		rows++
		return true
	})
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	source, err := replay.Open(folder, replay.Config{Speed: -1})
	if err != nil {
		t.Fatal(err)
	}
	writeJournal(t, t.TempDir(), source)
	if s := source.Stats(); s.Lines != rows+removed || s.Skipped.Lost() != removed || s.Passes != 1 {
		t.Errorf("%d books: %d lines, %s skipped, want %d rows and %d gaps", books, s.Lines, s.Skipped.String(), rows, removed)
	}
}

// TestJournalWithGapEvents plays a journal with gaps of instruments and of a market. A journal of
// the replay has the same statuses with the same numbers.
func TestJournalWithGapEvents(t *testing.T) {
	first, second := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	j, err := journal.Open(t.Context(), journal.Config{Folder: first})
	if err != nil {
		t.Fatal(err)
	}
	h := hub.New(hub.Config{Journal: j})
	if err := h.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).UnixNano()
	var handles []market.Handle
	ids := []string{"BOOK|SIM|CI", "PLAIN|SIM|CI", "*|SIM|*"}
	for i, name := range ids {
		id, err := market.ParsePattern(name)
		if err != nil {
			t.Fatal(err)
		}
		hd, err := h.Define(market.Instrument{ID: id, NoBook: i == 1, VirtualClock: true, Listed: at})
		if err != nil {
			t.Fatal(err)
		}
		handles = append(handles, hd)
	}
	event := func(handle int, kind market.Kind, reason string) {
		at++
		e := market.Event{Kind: kind, Handle: handles[handle], Time: at, Reason: reason}
		switch kind {
		case market.KindTrade:
			e.Price, e.Size = market.Scale, market.Scale
		case market.KindSnapshot:
			e.Bids = []market.Level{{Price: market.Scale, Size: market.Scale}}
		case market.KindStatus:
			e.Phase = market.Halt
		}
		if err := h.Publish([]market.Event{e}); err != nil {
			t.Fatal(err)
		}
	}
	for _, reason := range []string{"one", "two"} {
		event(0, market.KindSnapshot, "")
		event(1, market.KindTrade, "")
		event(0, market.KindStatus, reason)
		event(0, market.KindGap, reason)
		event(0, market.KindGap, reason+"_again")
		event(1, market.KindGap, reason)
		event(0, market.KindSnapshot, "")
		event(2, market.KindGap, reason)
	}
	h.Commit()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	source, err := replay.Open(first, replay.Config{Speed: -1})
	if err != nil {
		t.Fatal(err)
	}
	writeJournal(t, second, source)
	if s := source.Stats(); s.Rejected != 0 {
		t.Errorf("played %+v", s)
	}
	for i, least := range []int{13, 3, 2} {
		want, got := statuses(t, first, ids[i]), statuses(t, second, ids[i])
		if len(want) < least || !slices.Equal(got, want) {
			t.Errorf("%s: played %q, not %q", ids[i], got, want)
		}
	}
}

// statuses returns the statuses of an instrument in a journal.
func statuses(t *testing.T, folder, name string) (list []string) {
	t.Helper()
	r, err := journal.OpenReader(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	id, err := market.ParsePattern(name)
	if err != nil {
		t.Fatal(err)
	}
	err = r.Read(t.Context(), journal.Series{Instrument: id, Channel: journal.Statuses}, journal.Range{}, func(_ string, x *journal.Row) bool {
		list = append(list, fmt.Sprint(x.N, " ", x.Phase, " ", x.Reason))
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}
