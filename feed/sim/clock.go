package sim

import (
	"context"
	"errors"
	"math"
	"time"
)

// errSpeed is returned for a speed that is not above 0.
var errSpeed = errors.New("the speed must be above 0 and finite")

// Speed changes how many seconds pass on the exchange per second, in every active Run, and returns
// that number. 0 only asks for it. If the instruments have the times of this machine, event times
// keep them: there are more or fewer events in a second, and durations such as that of a halt
// change. Otherwise event times run faster or slower too. A later Run begins with Config.Speed.
// Speed does not wait for the change. It returns ErrNotRunning, or an error for a speed that is
// negative or infinite.
func (s *Source) Speed(speed float64) (now float64, err error) {
	if speed < 0 || math.IsInf(speed, 1) || math.IsNaN(speed) {
		return 0, errSpeed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.runs) == 0 {
		return 0, ErrNotRunning
	}
	for r := range s.runs {
		now = r.requestSpeed(speed)
	}
	return now, nil
}

// requestSpeed records a request for a speed, if it is not 0, and wakes the run. It returns the
// newest one.
func (r *run) requestSpeed(speed float64) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if speed != 0 {
		r.speed = speed
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
	switch {
	case r.speed != 0:
		return r.speed
	case r.clock.speed == 0:
		return 1
	}
	return r.clock.speed
}

// applySpeed changes the speed from the current virtual time on, if one was requested. r.mu must be
// held.
func (r *run) applySpeed() {
	if r.speed == 0 {
		return
	}
	c := &r.clock
	since := time.Since(c.began)
	if !r.virtual {
		r.x.setPace(r.speed, c.began.UnixNano()+int64(since))
	}
	c.speed, c.from, c.changed, c.now = r.speed, r.x.now, since, since
	r.speed = 0
}

// pace maps virtual times to event times that are those of the machine, after a change of speed.
// The zero pace adds Unix time and virtual time.
type pace struct {
	speed float64 // seconds of virtual time per second; 0: 1
	from  int64   // virtual time of the change
}

// unix returns the Unix time of a virtual time.
func (x *exchange) unix(at int64) int64 {
	if x.pace.speed == 0 {
		return x.start + at
	}
	return x.start + x.pace.from + int64(float64(at-x.pace.from)/x.pace.speed)
}

// setPace changes the pace from the current virtual time on, which is a Unix time. Event times do
// not go back.
func (x *exchange) setPace(speed float64, unix int64) {
	unix = max(unix, x.unix(x.now))
	x.start = unix - x.now
	x.pace = pace{speed, x.now}
	if speed == 1 {
		x.pace = pace{}
	}
}

// clock synchronises virtual time with the real clock.
type clock struct {
	speed   float64
	began   time.Time
	timer   *time.Timer
	now     time.Duration // real time since began, when last read
	from    int64         // virtual time of the last change of speed
	changed time.Duration // real time since began at that change
}

// wait returns the time until a virtual time; 0 if it is due.
func (c *clock) wait(at int64) time.Duration {
	if c.speed < 0 || math.IsInf(c.speed, 1) {
		return 0
	}
	due := time.Duration(at - c.from)
	if c.speed != 0 && c.speed != 1 {
		due = time.Duration(min(float64(due)/c.speed, math.MaxInt64/2))
	}
	due = min(due, math.MaxInt64/2) + c.changed
	if due <= c.now {
		return 0 // avoids reading the clock for each event of a backlog
	}
	c.now = time.Since(c.began)
	return max(0, due-c.now)
}

// virtual returns the current virtual time, or never if it does not depend on the clock.
func (c *clock) virtual() int64 {
	if c.speed < 0 || math.IsInf(c.speed, 1) {
		return never
	}
	speed := c.speed
	if speed == 0 {
		speed = 1
	}
	return c.from + int64(min(float64(time.Since(c.began)-c.changed)*speed, math.MaxInt64/2))
}

// sleep waits for a duration, or returns the error of ctx. It checks ctx and wake even if the
// duration is 0. woken reports that wake came first.
func (c *clock) sleep(ctx context.Context, wait time.Duration, wake <-chan struct{}) (woken bool, err error) {
	if wait <= 0 {
		select {
		case <-wake:
			woken = true
		default:
		}
		return woken, ctx.Err()
	}
	c.timer.Reset(wait)
	select {
	case <-c.timer.C:
		return false, nil
	case <-wake:
		return true, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}
