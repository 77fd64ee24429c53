package thread

import "time"

const (
	// wanted is how long a Yield takes at least where another thread had the processor meanwhile.
	wanted = 20 * time.Microsecond
	// restTimes is how much longer a rest is than the work before it.
	restTimes = 4
	// mostRest is the longest rest; one who was kept from running for long has not worked all the time.
	mostRest = 800 * time.Microsecond
)

// Breath is the rhythm of one who works on, and whose work is not urgent. The zero Breath has not begun.
type Breath struct {
	worksFrom time.Time
}

// Take is called between two pieces of work. It gives way, and rests where that was to somebody's use.
func (b *Breath) Take() {
	now := time.Now()
	Yield()
	if !b.worksFrom.IsZero() {
		time.Sleep(rest(now.Sub(b.worksFrom), time.Since(now)))
	}
	b.worksFrom = time.Now()
}

// rest is how long to rest after so much work, where a Yield took so long.
func rest(worked, away time.Duration) time.Duration {
	if away < wanted {
		return 0
	}
	return min(restTimes*worked, mostRest)
}
