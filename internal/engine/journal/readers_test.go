package journal

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"time"
)

// TestReadersDuringWrites reads in all ways while rows are written, segments change and days are
// closed and removed: each reader sees a range of rows without a gap.
func TestReadersDuringWrites(t *testing.T) {
	cfg := testConfig(t)
	cfg.Segment, cfg.Days, cfg.Sync = 60_000, 2, time.Millisecond
	src := newRowSource(22, 3)
	src.clone = false
	j := begin(t, cfg, src)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		if err := j.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	id := src.defs[1].ID
	for i := range 3 {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if err := lookOnce(ctx, j, Series{Instrument: id, Channel: Channel((n + i) % int(NumChannels))}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for day := range 8 {
		src.write(j, soak(200_000), true)
		src.at += int64(day%2) * dayNanos
	}
	stop()
	all.Wait()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

func lookOnce(ctx context.Context, j *Journal, s Series) error {
	last := uint64(0)
	var gap error
	err := j.Read(ctx, s, Range{}, func(_ string, r *Row) bool {
		if last != 0 && r.N != last+1 && s.Channel != Summaries {
			gap = errors.New("a gap in a series")
		}
		last = r.N
		return gap == nil
	})
	if gap != nil || isFailure(err) {
		return errors.Join(gap, err)
	}
	last = 0
	err = j.Scan(ctx, ScanStart{}, nil, allKinds, func(r *Row) bool {
		if last != 0 && r.Position != last+1 {
			gap = errors.New("a gap in the stream")
		}
		last = r.Position
		return gap == nil
	})
	j.Oldest(s)
	j.Days()
	j.Epochs()
	if gap != nil || isFailure(err) {
		return errors.Join(gap, err)
	}
	_, err = j.BookAt(ctx, s.Instrument, start+dayNanos/2, math.MaxInt64)
	if errors.Is(err, ErrNoBook) {
		err = nil
	}
	if isFailure(err) {
		return err
	}
	return nil
}

// isFailure reports whether an error has another cause than the removal of a day.
func isFailure(err error) bool {
	return err != nil && !errors.Is(err, ErrNotKept) && !errors.Is(err, context.Canceled)
}
