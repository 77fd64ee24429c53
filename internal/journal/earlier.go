package journal

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/ruedahq/rueda/internal/journal/dayfile"
)

// EarlierName is the name of the file that lists the earlier days of a journal, in its folder.
const EarlierName = "earlier.json"

// EarlierDay is a closed day before the first one of a journal. A new node of a cluster copies the
// newest days of another node, and adds the earlier ones while it serves clients.
type EarlierDay struct{ Date, Hash string }

// ErrWrongDay means that a day is not the one before the first day of a journal, or has files of
// another journal.
var ErrWrongDay = errors.New("the day does not belong before the first day of the journal")

// Earlier returns the days that are still to be added, oldest first. AddDay adds the last one.
// While there are any, rows before the first day are not lost, because other nodes may have them.
// Earlier may be called under the hub's lock.
func (a *Archive) Earlier() []EarlierDay {
	if list := a.earlier.Load(); list != nil {
		return *list
	}
	return nil
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
	text, err := os.ReadFile(filepath.Join(j.cfg.Folder, EarlierName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !j.cfg.Copy {
		j.cfg.Logger.Warn("the earlier days of the journal are given up, because this gateway is in no cluster")
		return ForgetEarlier(j)
	}
	var list []EarlierDay
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		return fmt.Errorf("read the list of earlier days: %w", err)
	}
	for i, e := range list {
		if slices.ContainsFunc(j.days, func(d *day) bool { return dateOf(d.date) == e.Date }) {
			list = list[:i]
			break
		}
	}
	if len(list) == 0 || len(j.days) == 0 {
		return ForgetEarlier(j)
	}
	for _, e := range list {
		if date, ok := parseDate(e.Date); ok {
			j.calendar.begun[date] = true
		}
	}
	j.earlier.Store(&list)
	return nil
}

// ForgetEarlier removes the list of earlier days. From then on, rows before the first day of the
// journal are lost.
func ForgetEarlier(j *Journal) error {
	err := j.sys.Remove(filepath.Join(j.cfg.Folder, EarlierName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the list of earlier days: %w", err)
	}
	j.earlier.Store(nil)
	return j.sys.SyncFolder(j.cfg.Folder)
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
// After another error the day may be in the journal, and stays in the list until the next start.
// Any goroutine may call AddDay.
func AddDay(ctx context.Context, j *Journal, folder string) error {
	j.changing.Lock()
	defer j.changing.Unlock()
	left := j.Earlier()
	err := checkEarlier(j, folder, left)
	if err == nil {
		err = moveDay(j, folder)
	}
	if err == nil {
		err = recomputeMinSeqs(ctx, j, func() []segmentView { return j.views("") })
	}
	if err != nil {
		return fmt.Errorf("add day %s to the journal: %w", filepath.Base(folder), err)
	}
	if left = left[:len(left)-1]; len(left) == 0 {
		return ForgetEarlier(j)
	}
	j.earlier.Store(&left)
	return nil
}

// checkEarlier checks that the day of a folder is the one before the first day of the journal.
func checkEarlier(j *Journal, folder string, left []EarlierDay) error {
	index, err := dayfile.Open(filepath.Join(folder, dayfile.Name), j.unpack)
	if err != nil {
		return err
	}
	defer func() { _ = index.Close() }() // only read from
	list := segmentsOf(&index.Meta)
	j.mu.RLock()
	defer j.mu.RUnlock()
	if len(left) == 0 || len(j.days) == 0 || len(list) == 0 {
		return ErrWrongDay
	}
	want, date := left[len(left)-1], filepath.Base(folder)
	if date != want.Date || index.Meta.Date != date || index.Meta.Hash != want.Hash {
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
			if s.last+1 != j.days[0].segments[next].first {
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
		removed := filepath.Join(j.cfg.Folder, removedPrefix+filepath.Base(folder))
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
