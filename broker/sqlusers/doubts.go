package sqlusers

import (
	"log/slog"
	"sync"
	"time"
)

// Bounds of what is told of users who cannot log in.
const (
	tellAgain   = time.Hour
	maxDoubtful = 1024
)

// doubts tells of users whom what is stored keeps out: a hash of another scheme, a row that cannot be read. To a client that is a
// wrong password, so without a line in the log nobody would know. There is one an hour for each of them.
type doubts struct {
	log *slog.Logger

	mu   sync.Mutex
	told map[string]time.Time // by id
}

// tell logs what is wrong with a user, unless it did lately.
func (d *doubts) tell(id string, err error) {
	if len(id) > maxID {
		id = ""
	}
	if d.isNews(id, time.Now()) {
		d.log.Warn("user cannot log in, whatever the password", "user", id, "error", err)
	}
}

func (d *doubts) isNews(id string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at, ok := d.told[id]; ok && now.Sub(at) < tellAgain {
		return false
	}
	if len(d.told) >= maxDoubtful {
		for other, at := range d.told {
			if now.Sub(at) >= tellAgain {
				delete(d.told, other)
			}
		}
	}
	if len(d.told) >= maxDoubtful {
		return false
	}
	if d.told == nil {
		d.told = map[string]time.Time{}
	}
	d.told[id] = now
	return true
}
