package thread

import "time"

const (
	// piece is how long is worked between two breaths, each of which costs some microseconds.
	piece = 30 * time.Microsecond
	// wanted is how long a Yield takes at least where another thread had the processor meanwhile.
	wanted = 20 * time.Microsecond
	// restTimes is how much longer a rest is than the work before it.
	restTimes = 19
	// mostWork is what counts as work of the time between two breaths: who was kept from running has not worked all of it.
	mostWork = 2 * piece
	// mostRests bounds all rests of a Breath, about those of a page of ten thousand rows: others wait for what is being done.
	mostRests = 50 * time.Millisecond
)

// Breath is the rhythm of one who works on, and whose work is not urgent. The zero Breath has not begun.
type Breath struct {
	worksFrom time.Time
	rested    time.Duration
}

// Take is called between two steps of the work. Where they are a piece by now, it gives way, and rests where that was to
// somebody's use.
func (b *Breath) Take() {
	now := time.Now()
	if now.Sub(b.worksFrom) < piece {
		return
	}
	Yield()
	if !b.worksFrom.IsZero() {
		d := min(rest(now.Sub(b.worksFrom), time.Since(now)), mostRests-b.rested)
		b.rested += d
		time.Sleep(d)
	}
	b.worksFrom = time.Now()
}

// rest is how long to rest after so much work, where a Yield took so long.
func rest(worked, away time.Duration) time.Duration {
	if away < wanted {
		return 0
	}
	return restTimes * min(worked, mostWork)
}
