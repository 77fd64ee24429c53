package session

import (
	"testing"
	"time"
)

func TestAge(t *testing.T) {
	const day = 24 * time.Hour
	for _, began := range []time.Duration{0, 1500 * time.Millisecond, day, 194*day + 4*time.Hour, 3000 * day} {
		for _, lasted := range []time.Duration{0, time.Second, time.Hour, 90 * day, 180 * day} {
			var a age
			a.set(began)
			if got := a.until(began + lasted); got != lasted {
				t.Errorf("from %v: %v, want %v", began, got, lasted)
			}
		}
	}
}
