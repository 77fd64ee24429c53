package sqlusers

import (
	"log/slog"
	"sync"
	"time"
)

// Limits of the log of bad records.
const (
	reportInterval = time.Hour
	maxReported    = 1024
)

// badRecordLog logs users who cannot log in because of their record: a hash of another scheme, or
// an invalid row. Clients see a wrong password, so the log is the only hint. Each user is logged at
// most once an hour.
type badRecordLog struct {
	log *slog.Logger

	mu       sync.Mutex
	reported map[string]time.Time // by id
}

// report logs what is wrong with a user, unless it did so recently.
func (d *badRecordLog) report(id string, err error) {
	if len(id) > maxID {
		id = ""
	}
	if d.isDue(id, time.Now()) {
		d.log.Warn("user cannot log in, whatever the password", "user", id, "error", err)
	}
}

func (d *badRecordLog) isDue(id string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at, ok := d.reported[id]; ok && now.Sub(at) < reportInterval {
		return false
	}
	if len(d.reported) >= maxReported {
		for other, at := range d.reported {
			if now.Sub(at) >= reportInterval {
				delete(d.reported, other)
			}
		}
	}
	if len(d.reported) >= maxReported {
		return false
	}
	if d.reported == nil {
		d.reported = map[string]time.Time{}
	}
	d.reported[id] = now
	return true
}
