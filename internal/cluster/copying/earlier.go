package copying

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ruedahq/rueda/internal/engine/journal"
)

// earlierEnding is the ending of the folder of a copy of earlier days, next to the journal.
const earlierEnding = ".earlier"

// ErrLimits means that the earlier days are above the limits of the journal of this node.
var ErrLimits = errors.New("the limits of the journal leave no space for earlier days")

// ErrFiles means that another node has an earlier day in files that do not belong to the journal of
// this node.
var ErrFiles = errors.New("the files of the day do not belong to the journal of this node")

// errAbsent means that a node does not have an earlier day.
var errAbsent = errors.New("it does not have the day")

// newestDays returns the days that are copied after the node serves clients: those before the
// newest closed one of an offer. There are none if the offer does not say whose files are the same,
// or if its days are not the first ones of the list. The error is errChange if the node that made
// the offer lacks days itself, and they may no longer be those before the list.
func newestDays(files []File, from *Offer) (e journal.EarlierDays, err error) {
	var dates []string // as in the journal
	seen := map[string]bool{}
	for _, f := range files {
		if d := path.Dir(f.Name); !seen[d] {
			seen[d], dates = true, append(dates, d)
		}
	}
	kept := max(0, len(from.Days)-1) // index of the first day to copy now
	same := kept < len(dates)
	for i := 0; same && i < min(kept+1, len(from.Days)); i++ {
		same = dates[i] == from.Days[i].Date
	}
	switch {
	case !same && len(from.Earlier) > 0:
		return e, errChange
	case !same || from.JournalID == "":
		return e, nil // all days are copied now
	}
	for _, d := range slices.Concat(from.Earlier, from.Days[:kept]) {
		e.Days = append(e.Days, journal.EarlierDay(d))
	}
	if len(e.Days) > 0 {
		e.From, e.Next = from.Node, dates[kept]
	}
	return e, nil
}

// since returns the files from a day on; "": all. The error is errChange if there are none of the
// day.
func since(files []File, first string) ([]File, error) {
	if first == "" {
		return files, nil
	}
	i := slices.IndexFunc(files, func(f File) bool { return path.Dir(f.Name) == first })
	if i < 0 {
		return nil, errChange
	}
	return files[i:], nil
}

// ofDay returns the files of a day, and their size.
func ofDay(files []File, date string) (list []File, bytes int64) {
	for _, f := range files {
		if path.Dir(f.Name) == date {
			list, bytes = append(list, f), bytes+f.Size
		}
	}
	return list, bytes
}

// AddEarlier copies the earlier days of a journal from the node that made an offer, the newest
// first, and adds each to the journal. others are the offers of all nodes. The error is a
// *PeerError, ErrSpace, ErrLimits, that of the disk or of the journal, or that of ctx. Days that
// were added before an error stay in the journal.
func (c *Copier) AddEarlier(ctx context.Context, j *journal.Journal, from *Offer, others []Offer) error {
	c.to = c.Journal + earlierEnding
	if err := c.begin(from.Node); err != nil {
		return err
	}
	for range maxPasses {
		l, err := c.list(ctx, from.Node)
		if err != nil {
			return err
		}
		switch err := c.addListed(ctx, j, l.Files, from, others); {
		case errors.Is(err, errGone): // compressed, or removed
		case err != nil:
			return err
		default:
			return RemoveEarlier(c.Journal)
		}
	}
	return &PeerError{from.Node, errChange}
}

// RemoveEarlier removes the copies of earlier days that are next to the journal in a folder.
func RemoveEarlier(folder string) error {
	if err := os.RemoveAll(folder + earlierEnding); err != nil {
		return fmt.Errorf("remove the copies of earlier days: %w", err)
	}
	return nil
}

// addListed adds the earlier days that are in a list of files. The error is errGone if a file was
// removed since then.
func (c *Copier) addListed(ctx context.Context, j *journal.Journal, all []File, from *Offer, others []Offer) error {
	for {
		left := j.Earlier()
		if len(left) == 0 {
			return nil
		}
		date := left[len(left)-1].Date
		files, bytes := ofDay(all, date)
		switch days := j.Days(); {
		case len(days) > 0 && days[0].Date == date: // the last attempt has moved it
			if err := c.add(j, date, days[0].Bytes); err != nil {
				return err
			}
			continue
		case len(files) == 0:
			return &PeerError{from.Node, fmt.Errorf("%s: %w", date, errAbsent)}
		case !journal.HasSpace(j, bytes):
			return ErrLimits
		case slices.ContainsFunc(files, func(f File) bool { return segment(f.Name) >= j.FirstSegment() }):
			return &PeerError{from.Node, fmt.Errorf("%s: %w", date, ErrFiles)}
		}
		_, gone, err := c.files(ctx, from.Node, files)
		switch {
		case err != nil:
			return err
		case gone:
			return errGone
		}
		if err := c.prune(files); err != nil {
			return err
		}
		if err := c.checkEarlier(ctx, date, from, others); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return errors.Join(&PeerError{from.Node, err}, os.RemoveAll(c.path(date)))
		}
		err = c.add(j, date, bytes)
		switch {
		case errors.Is(err, journal.ErrWrongDay):
			return errors.Join(&PeerError{from.Node, err}, os.RemoveAll(c.path(date)))
		case err != nil:
			return err
		}
	}
}

// add adds a day that was copied to the journal.
func (c *Copier) add(j *journal.Journal, date string, bytes int64) error {
	err := journal.AddDay(j, c.path(date))
	if err == nil && c.Added != nil {
		c.Added(date, bytes)
	}
	return err
}

// segment returns the number of a segment from the name of its file; 0 for other files.
func segment(name string) uint32 {
	stem, _, _ := strings.Cut(path.Base(name), ".")
	n, err := strconv.ParseUint(stem, 10, 32)
	if err != nil {
		return 0
	}
	return uint32(n)
}

// checkEarlier verifies the copy of a day. The day must be closed and undamaged, and have the hash
// that from states. The error is errOthers if more of the other offers have another hash than have
// this one.
func (c *Copier) checkEarlier(ctx context.Context, date string, from *Offer, others []Offer) (err error) {
	r, err := journal.OpenReader(ctx, c.folder())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if damage := r.Damage(); len(damage) > 0 {
		return damaged(&damage[0])
	}
	days := r.Days()
	if len(days) != 1 || days[0].Date != date || !days[0].Closed || !has(from, date) {
		return fmt.Errorf("%s: %w", date, errDay)
	}
	return damaged(checkDay(ctx, r, &days[0], from, others))
}

// damaged says that the damage of a copy is that of the original, because the files are the same.
func damaged(err error) error {
	d, ok := errors.AsType[*journal.Damage](err)
	if !ok {
		return err
	}
	file := path.Join(filepath.Base(filepath.Dir(d.File)), filepath.Base(d.File))
	return fmt.Errorf("its file %s is damaged at byte %d: %s", file, d.Offset, d.Reason)
}
