package sim

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/market"
)

// change changes the speed, and returns the events of all instruments in the time after it.
func (x *trial) change(speed float64, wait time.Duration) []market.Event {
	x.t.Helper()
	if now, err := x.source.Speed(speed); err != nil || now != speed {
		x.t.Fatalf("the speed is %v, %v; want %v", now, err, speed)
	}
	before := len(x.sink.Events())
	time.Sleep(wait)
	synctest.Wait()
	return x.sink.Events()[before:]
}

// TestSpeedOfRealClock changes the speed while the exchange runs: the number of events follows, and
// event times stay those of the machine.
func TestSpeedOfRealClock(t *testing.T) {
	try(t, Config{Seed: 5, Instruments: 5}, func(x *trial) {
		if now, err := x.source.Speed(0); now != 1 || err != nil {
			x.t.Errorf("first %v, %v", now, err)
		}
		last, rates := int64(0), map[float64]float64{}
		for _, speed := range []float64{1, 10, 0.5, 1} {
			events := x.change(speed, 20*time.Second)
			rates[speed] = float64(len(events)) / 20
			for i := range events {
				if events[i].Time < last {
					x.t.Fatalf("at speed %v, an event goes back by %d ns", speed, last-events[i].Time)
				}
				last = events[i].Time
			}
			if late := time.Now().UnixNano() - last; late < 0 || late > second {
				x.t.Errorf("at speed %v, the newest event is %v old", speed, time.Duration(late))
			}
		}
		if rates[10] < 5*rates[1] || rates[0.5] > 0.8*rates[1] {
			x.t.Errorf("events per second by speed: %v", rates)
		}
		// Faults have the length of market time.
		x.change(10, time.Second)
		halt := x.after("halt", fakeID, 2*time.Second)
		if halt[0].Phase != market.Halt || halt[0].Until-halt[0].Time != second || halt[1].Phase != market.Open || halt[1].Time != halt[0].Until {
			x.t.Errorf("a halt at speed 10: %v, then %v", halt[0], halt[1])
		}
	})
}

// TestSpeedOfVirtualClock checks that event times follow the speed of an exchange with its own
// time.
func TestSpeedOfVirtualClock(t *testing.T) {
	for name, config := range map[string]Config{
		"trading days": {Seed: 5, Instruments: 5, Clock: Virtual, Speed: 60, Start: friday()},
		"a speed":      {Seed: 5, Instruments: 5, Speed: 60},
	} {
		t.Run(name, func(t *testing.T) {
			try(t, config, func(x *trial) {
				if now, err := x.source.Speed(0); now != 60 || err != nil {
					x.t.Errorf("first %v, %v", now, err)
				}
				events := x.change(60, 20*time.Second) // in the pre-open
				from := events[len(events)-1].Time
				events = x.change(2, 20*time.Second)
				if passed := events[len(events)-1].Time - from; passed < 25*second || passed > 45*second {
					x.t.Errorf("%v passed in 20 s at speed 2", time.Duration(passed))
				}
			})
		})
	}
}

// TestSpeedRefused checks what is no speed, and that an exchange without a run has none.
func TestSpeedRefused(t *testing.T) {
	source := newSource(t, Config{Instruments: 1})
	for _, speed := range []float64{-1, math.Inf(1), math.NaN()} {
		if _, err := source.Speed(speed); err == nil || errors.Is(err, ErrNotRunning) {
			t.Errorf("%v: %v", speed, err)
		}
	}
	if _, err := source.Speed(2); !errors.Is(err, ErrNotRunning) {
		t.Errorf("without a run: %v", err)
	}
}
