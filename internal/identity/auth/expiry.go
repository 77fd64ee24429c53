package auth

import (
	"context"
	"sync"
	"time"

	"github.com/ruedahq/rueda/broker"
)

// expiryEvery is how often users whose account has ended are looked for.
const expiryEvery = 500 * time.Millisecond

// accountEnds has the remembered users whose account ends at a known time.
type accountEnds struct {
	mu sync.Mutex
	at map[string]time.Time
}

// set records when the account of a user ends; zero: never.
func (e *accountEnds) set(id string, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if at.IsZero() {
		delete(e.at, id)
		return
	}
	if e.at == nil {
		e.at = make(map[string]time.Time)
	}
	if len(e.at) < maxUsers {
		e.at[id] = at
	}
}

// due removes and returns the users whose account has ended.
func (e *accountEnds) due(now time.Time) (ids []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, at := range e.at {
		if !now.Before(at) {
			ids = append(ids, id)
			delete(e.at, id)
		}
	}
	return ids
}

// run ends the logins and sockets of users when their account ends, until ctx ends. It reads such a
// user again, because the end may have been moved. If the user base does not answer, the user is
// logged out.
func (e *accountEnds) run(ctx context.Context, s *Service) {
	tick := time.NewTicker(expiryEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, id := range e.due(time.Now()) {
			silent := s.users.down(time.Now())
			if !silent {
				_, err := s.readUser(ctx, id)
				silent = err != nil
			}
			if silent && ctx.Err() == nil {
				s.note(s.users.begin(), knownUser{user: broker.User{ID: id}, gone: true})
				s.gone.end(ctx, s, false)
			}
		}
	}
}
