package replay

import (
	"context"
	"math"
	"time"
)

// pace determines when a line is due.
type pace struct {
	speed float64 // 0: as fast as possible
	from  int64   // lines received before this time are due at once
	begun time.Time
	first int64 // receive time of the first line
	timer *time.Timer
}

func newPace(speed float64, from int64) pace {
	switch {
	case speed == 0:
		speed = 1
	case speed < 0 || math.IsInf(speed, 1):
		speed = 0
	}
	return pace{speed: speed, from: from}
}

// until returns the time until a line is due.
func (p *pace) until(receive int64) time.Duration {
	if p.speed == 0 || receive < p.from {
		return 0
	}
	if p.begun.IsZero() {
		p.begun, p.first = time.Now(), receive
	}
	after := float64(receive-p.first) / p.speed
	// With a speed near 0, the result could exceed the range of a Duration.
	return time.Duration(min(after, 1<<62)) - time.Since(p.begun)
}

func (p *pace) wait(ctx context.Context, d time.Duration) error {
	if p.timer == nil {
		p.timer = time.NewTimer(d)
	} else {
		p.timer.Reset(d)
	}
	select {
	case <-p.timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *pace) stop() {
	if p.timer != nil {
		p.timer.Stop()
	}
}
