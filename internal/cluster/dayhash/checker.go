package dayhash

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/engine/journal"
)

// Day is a closed day of a journal.
type Day struct {
	Date   string
	Hash   string // of its rows, as they were read last, or when the day was closed; "": unreadable
	From   int64  // At of its first row
	Oldest bool   // it is the first one of the journal, which may have begun on it
}

// Checker reads the closed days of a journal again.
type Checker struct {
	archive *journal.Archive
	read    map[string]result // by date
}

// result is the result of the last reading of a day.
type result struct {
	at   time.Time
	hash string
	err  error
}

// NewChecker returns a Checker that has read nothing yet.
func NewChecker(a *journal.Archive) *Checker { return &Checker{a, map[string]result{}} }

// Days returns the closed days of the journal, oldest first.
func (c *Checker) Days() []Day {
	list := []Day{}
	days := c.archive.Days()
	for i, d := range days {
		if !d.Closed {
			continue
		}
		x := Day{Date: d.Date, Hash: d.Hash, From: d.From, Oldest: i == 0}
		if r, ok := c.read[d.Date]; ok {
			x.Hash = r.hash
		}
		list = append(list, x)
	}
	for date := range c.read {
		if !slices.ContainsFunc(days, func(d journal.Day) bool { return d.Date == date }) {
			delete(c.read, date)
		}
	}
	return list
}

// Read reads the closed day whose last reading is the oldest; of days that were never read, the
// newest. It returns the date of the day, its size in bytes, and the error if it cannot be read.
// The date is "" if there is no closed day, if the day was removed meanwhile, or if ctx has ended.
func (c *Checker) Read(ctx context.Context) (date string, bytes int64, err error) {
	var next *journal.Day
	days := c.archive.Days()
	for i := range slices.Backward(days) {
		d := &days[i]
		if d.Closed && (next == nil || c.read[d.Date].at.Before(c.read[next.Date].at)) {
			next = d
		}
	}
	if next == nil {
		return "", 0, nil
	}
	hash, err := c.archive.HashDay(ctx, next.Date)
	if ctx.Err() != nil || errors.Is(err, journal.ErrNotKept) {
		return "", 0, nil // the day was removed
	}
	c.read[next.Date] = result{time.Now(), hash, err}
	return next.Date, next.Bytes, err
}
