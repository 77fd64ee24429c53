package export

import (
	"context"
	"fmt"

	"github.com/ruedahq/rueda/internal/engine/journal"
)

// BeginningMissing reports whether the oldest day of a journal had rows before the first one that
// is kept. Days are removed as a whole, so its first files were removed or damaged. Checkpoints
// show this: they have the newest quote and status of each instrument from before the first row. If
// none of these is of that day, nothing is known, and BeginningMissing returns false. It reads the
// day up to its second checkpoint.
func BeginningMissing(ctx context.Context, j *journal.Archive) (missing bool, err error) {
	days := j.Days()
	if len(days) == 0 || j.FirstSegment() <= 1 {
		return false, nil
	}
	oldest := Request{Date: days[0].Date}
	begins, err := oldest.start()
	if err != nil || begins >= days[0].From {
		return false, err
	}
	seen := map[uint32]bool{} // instruments of the first checkpoint
	kinds := journal.Kinds(journal.Numbers, journal.Quote, journal.Status) | journal.Checkpoints
	from := journal.ScanStart{Epoch: j.Epochs()[0], Date: days[0].Date, Damaged: func(error) {}}
	err = j.Scan(ctx, from, nil, kinds, func(r *journal.Row) bool {
		switch {
		case r.Kind == journal.Numbers:
			if seen[r.Instrument] {
				return false
			}
			seen[r.Instrument] = true
		case r.Checkpoint && r.At >= begins && r.At < days[0].From:
			in, known := j.Instrument(r.Instrument)
			missing = known && !in.VirtualClock // whose times say nothing about the day of a row
		}
		return !missing
	})
	if err != nil {
		return false, fmt.Errorf("read the first checkpoint of %s: %w", days[0].Date, err)
	}
	return missing, nil
}

// MayLack reports whether a file may lack rows, as far as is known without reading.
func MayLack(j *journal.Archive, r Request) bool {
	days := j.Days()
	return j.Incomplete() || len(days) > 0 && days[0].Date == r.Date && j.FirstSegment() > 1
}

// findBeginning finds out whether the first rows of the day are missing.
func (x *tableWriter) findBeginning(ctx context.Context) (err error) {
	if days := x.journal.Days(); len(days) > 0 && days[0].Date == x.date {
		x.beginningMissing, err = BeginningMissing(ctx, x.journal)
	}
	return err
}

// notKept adds the rows of a series before the first one that is kept, if the first rows of the day
// are missing.
func (x *tableWriter) notKept(ctx context.Context, in *listing, s journal.Series) error {
	if !x.beginningMissing {
		return nil
	}
	epoch := x.journal.Epochs()[0]
	found, err := x.journal.Find(s, epoch)
	if err != nil {
		return err
	}
	defer found.Close()
	r := Range{}
	stored := false
	if s.Channel != journal.Books { // which have no index
		err = found.Read(ctx, journal.Range{Epoch: epoch, SkipDamage: true}, func(_ string, row *journal.Row) bool {
			r.To, r.End, stored = row.N-1, row.Time, true
			return false
		})
	}
	if !stored && epoch == x.journal.Epoch() {
		r.To = x.journal.Oldest(s) - 1
	}
	if err != nil || r.To == 0 {
		return err
	}
	r.From = 1
	others, err := found.Lost(ctx, journal.Range{Epoch: epoch, ToN: r.To})
	if err != nil || len(others) > 0 && others[0].From == 1 {
		return err // they are listed with the others
	}
	if len(others) > 0 {
		r.To = others[0].From - 1
	}
	x.lost = append(x.lost, lostOf(in, s, epoch, r))
	return nil
}

// lostOf returns a range of a series.
func lostOf(in *listing, s journal.Series, epoch string, r Range) Lost {
	l := Lost{Instrument: in.ID, Epoch: epoch, Range: r}
	if s.Channel == journal.Bars {
		l.Interval = s.Interval.String()
	}
	return l
}
