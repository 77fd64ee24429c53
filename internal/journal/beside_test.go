package journal

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// TestReadersBesideTheWriter has readers of all kinds look while rows are written, segments change and days are closed and
// removed: each sees a piece of the tape without a gap.
func TestReadersBesideTheWriter(t *testing.T) {
	cfg := testConfig(t)
	cfg.Segment, cfg.Days, cfg.Sync = 60_000, 2, time.Millisecond
	tape := newTape(22, 3)
	tape.clone = false
	j := begin(t, cfg, tape)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		if err := j.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	id := tape.defs[1].ID
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
		tape.write(j, soak(200_000), true)
		tape.at += int64(day%2) * dayNanos
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
	if gap != nil || over(err) {
		return errors.Join(gap, err)
	}
	last = 0
	err = j.Scan(ctx, Place{}, nil, allKinds, func(r *Row) bool {
		if last != 0 && r.Position != last+1 {
			gap = errors.New("a gap in the stream")
		}
		last = r.Position
		return gap == nil
	})
	j.Oldest(s)
	j.Days()
	j.Epochs()
	if gap != nil || over(err) {
		return errors.Join(gap, err)
	}
	_, err = j.BookAt(ctx, s.Instrument, start+dayNanos/2)
	if errors.Is(err, ErrNoBook) {
		err = nil
	}
	if over(err) {
		return err
	}
	return nil
}

// over says whether an error is more than that a day went while it was read.
func over(err error) bool {
	return err != nil && !errors.Is(err, ErrNotKept) && !errors.Is(err, context.Canceled)
}
