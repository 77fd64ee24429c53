package rest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ruedahq/rueda/wire"
)

// lanes bound the work on the journal. As many readers run at a time as there are lanes; more
// wait for one, for a bounded time and in bounded number. The stream comes first: each
// reader is a goroutine that keeps a processor busy.
type lanes struct {
	free     chan struct{} // a token for each lane in use
	perUser  int           // running and waiting, of one user
	waiting  int           // running and waiting, of all
	patience time.Duration

	mu    sync.Mutex
	all   int
	users map[string]int
}

func newLanes(n, perUser, waiting int, patience time.Duration) *lanes {
	return &lanes{free: make(chan struct{}, n), perUser: perUser, waiting: n + waiting, patience: patience, users: make(map[string]int)}
}

// take waits for a lane. The caller gives it back by calling free, and with leave, behind it, the place of
// the user, each once, unless there is a fault: RateLimited where the user has too many requests
// of the kind at once, Unavailable where all users together have.
func (l *lanes) take(ctx context.Context, user string) (free, leave func(), err error) {
	if f := l.queue(user); f != nil {
		return nil, nil, f
	}
	patience, cancel := context.WithTimeout(ctx, l.patience)
	defer cancel()
	select {
	case l.free <- struct{}{}:
		free := func() {
			<-l.free
			l.mu.Lock()
			l.all--
			l.mu.Unlock()
		}
		leave := func() {
			l.mu.Lock()
			l.forget(user)
			l.mu.Unlock()
		}
		return free, leave, nil
	case <-patience.Done():
		l.unqueue(user)
		if ctx.Err() != nil {
			return nil, nil, errGone
		}
		return nil, nil, &wire.Fault{Reason: wire.Unavailable, Msg: "Too many history requests at once", RetryAfter: 1}
	}
}

// enter waits for a lane as long as ctx lasts, for who is let in by other rules; exit gives it back.
func (l *lanes) enter(ctx context.Context) error {
	select {
	case l.free <- struct{}{}:
		return nil
	case <-ctx.Done():
		return errGone
	}
}

func (l *lanes) exit() { <-l.free }

// errGone says that the client went away; nobody reads the answer.
var errGone = errors.New("the client is gone")

func (l *lanes) queue(user string) *wire.Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.users[user] >= l.perUser:
		return &wire.Fault{Reason: wire.RateLimited, Msg: "Too many history requests at once", RetryAfter: 1}
	case l.all >= l.waiting:
		return &wire.Fault{Reason: wire.Unavailable, Msg: "Too many history requests at once", RetryAfter: 1}
	}
	l.users[user]++
	l.all++
	return nil
}

func (l *lanes) unqueue(user string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	l.forget(user)
}

func (l *lanes) forget(user string) {
	if l.users[user]--; l.users[user] == 0 {
		delete(l.users, user)
	}
}
