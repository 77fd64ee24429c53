package journal

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/ruedahq/rueda/internal/engine/journal/dayfile"
)

// EarlierName is the name of the file with the EarlierDays of a journal, in its folder.
const EarlierName = "earlier.json"

// EarlierDay is a closed day before the first one of a journal.
type EarlierDay struct {
	Date, Hash string
	Latest     int64 // greatest event time of its rows, Unix ns; 0: unknown
}

// EarlierDays are the days that are still to be added to a journal. A new node of a cluster copies
// the newest days of another node, and adds the earlier ones while it serves clients.
type EarlierDays struct {
	From string       // node that was copied
	Days []EarlierDay // oldest first; the last one is added first
	Next string       // date of the day that follows them, which is the first one of the journal
}

// ErrWrongDay means that a day is not the one before the first day of a journal, or has files of
// another journal.
var ErrWrongDay = errors.New("the day does not belong before the first day of the journal")

// Earlier returns the days that are still to be added, oldest first. AddDay adds the last one.
// While there are any, rows before the first day are not lost, because other nodes may have them.
// Earlier may be called under the hub's lock.
func (a *Archive) Earlier() []EarlierDay {
	if e := a.earlier.Load(); e != nil {
		return e.Days
	}
	return nil
}

// EarlierFrom returns the name of the node that was copied, if days are still to be added.
func (a *Archive) EarlierFrom() string {
	if e := a.earlier.Load(); e != nil {
		return e.From
	}
	return ""
}

// EarlierUntil returns the event time, Unix ns, before which rows of an instrument may be in the
// days that are still to be added. It is 0 if there are none, and math.MaxInt64 if it is unknown.
// The times of a virtual clock say nothing about the day of a row.
func (a *Archive) EarlierUntil(virtualClock bool) (until int64) {
	for _, d := range a.Earlier() {
		if virtualClock || d.Latest <= 0 || d.Latest == math.MaxInt64 {
			return math.MaxInt64
		}
		until = max(until, d.Latest+1)
	}
	return until
}

// ID returns the id of the journal in hexadecimal. A copy has the id of its original.
func (a *Archive) ID() string { return hex.EncodeToString(a.journal[:]) }

// FirstSegment returns the number of the oldest segment; 0: there is none.
func (a *Archive) FirstSegment() uint32 {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if len(a.days) == 0 {
		return 0
	}
	return a.days[0].segments[0].number
}

// openEarlier reads the list of earlier days, without those that were added. Only the copy of a log
// has earlier days: nobody else could add them.
func openEarlier(j *Journal) error {
	name := filepath.Join(j.cfg.Folder, EarlierName)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !j.cfg.Copy {
		return giveUpEarlier(j, "this gateway is in no cluster", 0)
	}
	var e EarlierDays
	if err == nil {
		err = json.Unmarshal(text, &e)
	}
	if err != nil {
		return fmt.Errorf("read the list of earlier days (remove %s to do without them, or the folder to copy the journal again): %w", name, err)
	}
	for i, d := range e.Days {
		if slices.ContainsFunc(j.days, func(x *day) bool { return dateOf(x.date) == d.Date }) {
			e.Days, e.Next = e.Days[:i], d.Date
			break
		}
	}
	switch {
	case len(e.Days) == 0 && e.Next == "":
		return giveUpEarlier(j, "their list is empty", 0)
	case len(e.Days) == 0:
		return ForgetEarlier(j)
	}
	if len(j.days) == 0 || dateOf(j.days[0].date) != e.Next {
		return giveUpEarlier(j, "the day after them is missing: "+e.Next, len(e.Days))
	}
	for _, d := range e.Days {
		if date, ok := parseDate(d.Date); ok && date < j.day { // a later one would be that of a wrong clock
			j.calendar.begun[date] = true
		}
	}
	j.earlier.Store(&e)
	return nil
}

// ForgetEarlier removes the list of earlier days. From then on, rows before the first day of the
// journal are lost. After an error the list is still there.
func ForgetEarlier(j *Journal) error {
	err := j.sys.Remove(filepath.Join(j.cfg.Folder, EarlierName))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		err = j.sys.SyncFolder(j.cfg.Folder)
	}
	if err != nil {
		return fmt.Errorf("remove the list of earlier days: %w", err)
	}
	j.earlier.Store(nil)
	return nil
}

// giveUpEarlier forgets the earlier days, and logs why.
func giveUpEarlier(j *Journal, reason string, days int) error {
	if err := ForgetEarlier(j); err != nil {
		return err
	}
	j.cfg.Logger.Warn("earlier days of the journal are given up", "reason", reason, "days", days)
	return nil
}

// HasSpace reports whether one more closed day of a size in bytes is within the limits of the
// journal.
func HasSpace(j *Journal, bytes int64) bool {
	closed, total := closedDays(j)
	return closed < j.cfg.Days && total+bytes <= j.cfg.Bytes
}

// AddDay moves the folder of a day into the journal, as its new first day. The day must be the last
// of Earlier, and closed. Its segments must belong to the journal. Its files must be verified,
// synced, and on the file system of the journal. If they are refused, the error is ErrWrongDay.
// After another error the day may be in the journal, and AddDay must be called again. Any goroutine
// may call AddDay.
func AddDay(j *Journal, folder string) error {
	j.changing.Lock()
	defer j.changing.Unlock()
	e, date := j.earlier.Load(), filepath.Base(folder)
	var err error
	if !isFirst(j, date) {
		if err = checkEarlier(j, folder, e); err == nil {
			err = moveDay(j, folder)
		}
	}
	if err == nil && (e == nil || len(e.Days) == 0 || e.Days[len(e.Days)-1].Date != date) {
		err = ErrWrongDay
	}
	if err == nil {
		err = recomputeMinSeqs(context.Background(), j, func() []segmentView { return j.views("") })
	}
	if err != nil {
		return fmt.Errorf("add day %s to the journal: %w", date, err)
	}
	left := EarlierDays{From: e.From, Days: e.Days[:len(e.Days)-1], Next: date}
	if len(left.Days) == 0 {
		return ForgetEarlier(j)
	}
	j.earlier.Store(&left)
	return nil
}

// isFirst reports whether a date is the first day of a journal.
func isFirst(j *Journal, date string) bool {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return len(j.days) > 0 && dateOf(j.days[0].date) == date
}

// checkEarlier checks that the day of a folder is the one before the first day of the journal.
func checkEarlier(j *Journal, folder string, e *EarlierDays) error {
	index, err := dayfile.Open(filepath.Join(folder, dayfile.Name), j.unpack)
	if err != nil {
		return err
	}
	defer func() { _ = index.Close() }() // only read from
	list := segmentsOf(&index.Meta)
	j.mu.RLock()
	defer j.mu.RUnlock()
	if e == nil || len(e.Days) == 0 || len(j.days) == 0 || len(list) == 0 || dateOf(j.days[0].date) != e.Next {
		return ErrWrongDay
	}
	want, date := e.Days[len(e.Days)-1], filepath.Base(folder)
	there := slices.ContainsFunc(j.days, func(d *day) bool { return dateOf(d.date) == date })
	if there || date != want.Date || index.Meta.Date != date || index.Meta.Hash != want.Hash {
		return ErrWrongDay
	}
	first := j.days[0].segments[0]
	for _, s := range list {
		if s.journal != j.journal || s.number >= first.number || dateOf(s.day) != date {
			return ErrWrongDay
		}
	}
	ofFirst := func(s *segment) bool { return s.epoch == first.epoch && s.rows > 0 }
	next := slices.IndexFunc(j.days[0].segments, ofFirst)
	for _, s := range slices.Backward(list) {
		if next >= 0 && ofFirst(s) {
			if first := j.days[0].segments[next].first; s.last+1 != first && !(s.low && s.last < first) {
				return ErrWrongDay
			}
			break
		}
	}
	return nil
}

// moveDay moves the folder of a day to the journal, and makes it the first day. If the process ends
// in between, the next one finds the day in the journal.
func moveDay(j *Journal, folder string) error {
	date, _ := parseDate(filepath.Base(folder))
	d := &day{date: date, folder: filepath.Join(j.cfg.Folder, filepath.Base(folder))}
	removed := filepath.Join(j.cfg.Folder, removedPrefix+filepath.Base(folder))
	if _, err := os.Lstat(d.folder); err == nil { // of an attempt that failed
		if err := errors.Join(j.sys.Rename(d.folder, removed), j.sys.RemoveAll(removed)); err != nil {
			return err
		}
	}
	err := j.sys.SyncFolder(folder)
	if err == nil {
		err = j.sys.Rename(folder, d.folder)
	}
	if err != nil {
		return err
	}
	if err = j.sys.SyncFolder(j.cfg.Folder); err == nil {
		err = loadEarlier(j, d)
	}
	if err != nil {
		return errors.Join(err, j.sys.Rename(d.folder, removed), j.sys.RemoveAll(removed))
	}
	j.mu.Lock()
	j.days = append([]*day{d}, j.days...)
	j.mu.Unlock()
	return nil
}

// loadEarlier reads the index of an earlier day. Its definitions do not replace later ones.
func loadEarlier(j *Journal, d *day) error {
	index, err := dayfile.Open(filepath.Join(d.folder, dayfile.Name), j.unpack)
	if err != nil {
		return err
	}
	for _, def := range index.Meta.Definitions {
		if err := j.table.addEarlier(def.Number, def.Text, def.RealClock); err != nil {
			return errors.Join(err, index.Close())
		}
	}
	index.Meta.Definitions = nil
	if err := j.takeDay(d, index); err != nil {
		return errors.Join(err, index.Close())
	}
	return nil
}
