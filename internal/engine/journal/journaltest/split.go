package journaltest

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/journal"
)

// Split moves the first days of a journal to another folder, as if the journal were that of a new
// node of a cluster. It returns the folder of each day, oldest first, for journal.AddDay.
func Split(t testing.TB, folder string, days int) (list []string) {
	t.Helper()
	r, err := journal.OpenReader(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	all := r.Days()
	e := journal.EarlierDays{From: "a", Next: all[days].Date}
	for _, d := range all[:days] {
		e.Days = append(e.Days, journal.EarlierDay{Date: d.Date, Hash: d.Hash, Latest: d.Latest})
	}
	other := folder + ".earlier"
	err = errors.Join(r.Close(), os.MkdirAll(other, 0o700))
	for _, d := range e.Days {
		list = append(list, filepath.Join(other, d.Date))
		err = errors.Join(err, os.Rename(filepath.Join(folder, d.Date), filepath.Join(other, d.Date)))
	}
	text, failed := json.Marshal(e)
	if err = errors.Join(err, failed, os.WriteFile(filepath.Join(folder, journal.EarlierName), text, 0o600)); err != nil {
		t.Fatal(err)
	}
	return list
}
