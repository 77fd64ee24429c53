package host

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/cluster/copying"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/journal/journaltest"
)

// newJournal writes the journal of a new node that lacks two days, and returns its folder.
func newJournal(t *testing.T) (folder string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "journal")
	journaltest.Days{Folder: folder, Epoch: "e", Closed: 3, Rows: 100}.Write(t)
	journaltest.Split(t, folder, 2)
	return folder
}

// newEarlier opens the journal of a new node, and returns what adds its earlier days.
func newEarlier(t *testing.T, folder string) *earlier {
	t.Helper()
	j, err := journal.Open(t.Context(), journal.Config{Folder: folder, Copy: true, Epoch: "e", Days: 1000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return &earlier{
		Host:     &Host{cfg: Config{Journal: j}, log: slog.New(slog.DiscardHandler)},
		failures: map[string]int{}, others: func() []string { return nil },
	}
}

// TestChooseEarlier checks from which node a new one copies its next earlier day, and when it gives
// earlier days up.
func TestChooseEarlier(t *testing.T) {
	folder := newJournal(t)
	synctest.Test(t, func(t *testing.T) {
		e := newEarlier(t, folder)
		j := e.cfg.Journal
		list := j.Earlier()
		days := []copying.Day{copying.Day(list[0]), copying.Day(list[1])}
		offer := func(name string, days ...copying.Day) copying.Offer {
			return copying.Offer{Node: name, Days: days, JournalID: j.ID()}
		}
		leads, other, refuses, waits := offer("leads", days...), offer("other", days...), offer("refuses", days...), offer("waits")
		leads.Leads, other.JournalID, refuses.Reason, waits.Earlier = true, "", "it does not follow", days
		changed := offer("a", days[0], copying.Day{Date: days[1].Date, Hash: "another"})
		check := func(want string, wantErr error, offers ...copying.Offer) {
			t.Helper()
			got, err := e.choose(offers)
			if !errors.Is(err, wantErr) || (got == nil) != (want == "") || got != nil && got.Node != want {
				t.Errorf("%+v, %v, want %q, %v", got, err, want, wantErr)
			}
		}
		check("a", nil, leads, offer("b", days...), offer("a", days...)) // the one that was copied
		check("b", nil, leads, offer("b", days...))
		e.failures["a"] = samePeer - 1
		check("a", nil, offer("b", days...), offer("a", days...))
		e.failures["a"] = samePeer
		check("b", nil, offer("b", days...), offer("a", days...))
		check("leads", nil, leads, offer("a", days...))
		check("", errFiles, other, offer("a", days[0]))
		check("", errAbsent, refuses, waits)
		for _, list := range [][]copying.Offer{nil, {waits}, {offer("b", days[0])}, {changed, refuses}} { // the days may come back
			for range 100 {
				check("", errAbsent, list...)
				time.Sleep(awayTime / 101) // of the test's clock
			}
			check("b", nil, offer("b", days...))
		}
		e.others = func() []string { return []string{"a", "off"} }
		for range 10 {
			check("", errAbsent, changed, waits) // they were removed, and a node is off
			time.Sleep(absentTime)               // of the test's clock
		}
		e.others = func() []string { return []string{"a", "waits"} }
		check("", errAbsent, changed, waits)
		time.Sleep(absentTime + time.Second) // of the test's clock
		name := filepath.Join(folder, journal.EarlierName)
		if err := errors.Join(os.Remove(name), os.MkdirAll(filepath.Join(name, "full"), 0o700)); err != nil {
			t.Fatal(err)
		}
		if _, err := e.choose([]copying.Offer{changed, waits}); err == nil || errors.Is(err, errGivenUp) || j.Earlier() == nil {
			t.Errorf("the list cannot be removed: %v", err)
		}
		if err := os.RemoveAll(name); err != nil {
			t.Fatal(err)
		}
		check("", errGivenUp, changed, waits)
		if j.Earlier() != nil {
			t.Error("the days were not given up")
		}
	})
}

// TestNewNodesWait checks that new nodes which wait for each other give their earlier days up in
// the end.
func TestNewNodesWait(t *testing.T) {
	folder := newJournal(t)
	synctest.Test(t, func(t *testing.T) {
		e := newEarlier(t, folder)
		j := e.cfg.Journal
		waits := copying.Offer{Node: "b", Earlier: []copying.Day{copying.Day(j.Earlier()[0]), copying.Day(j.Earlier()[1])}, JournalID: j.ID()}
		if _, err := e.choose([]copying.Offer{waits}); !errors.Is(err, errAbsent) {
			t.Error(err)
		}
		time.Sleep(awayTime + time.Second) // of the test's clock
		if _, err := e.choose([]copying.Offer{waits}); !errors.Is(err, errGivenUp) || j.Earlier() != nil {
			t.Errorf("%v, earlier %+v", err, j.Earlier())
		}
		if _, err := e.choose([]copying.Offer{waits}); !errors.Is(err, errGivenUp) { // as if the limits had removed the days
			t.Errorf("without earlier days: %v", err)
		}
	})
}
