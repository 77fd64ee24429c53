package auth

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/base/audit"
)

// goneUsers has the users who were found to be disabled or deleted and whose families have not been
// revoked yet.
type goneUsers struct {
	mu    sync.Mutex
	found map[string]time.Time // not tried yet, with the time at which that was found
	late  map[string]time.Time // the Store failed
}

func (g *goneUsers) add(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.found == nil {
		g.found, g.late = make(map[string]time.Time), make(map[string]time.Time)
	}
	if len(g.found) < maxUsers {
		g.found[id] = time.Now()
	}
}

// goneUser is a user whose families are revoked. Before a retry, the user may have come back and
// logged in, so that it revokes only families that were created by a time; zero: all.
type goneUser struct {
	id      string
	found   time.Time
	created time.Time
}

// retry queues users for the next round of Run.
func (g *goneUsers) retry(list []goneUser) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, u := range list {
		if _, queued := g.late[u.id]; queued || len(g.late) < maxUsers {
			g.late[u.id] = u.found
		}
	}
}

// take removes and returns the users whose logins are to end. If late is true, they include the
// users for whom an earlier attempt failed.
func (g *goneUsers) take(late bool) (list []goneUser) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for id, at := range g.found {
		list = append(list, goneUser{id: id, found: at})
		delete(g.late, id) // this attempt revokes more
	}
	clear(g.found)
	if late {
		for id, at := range g.late {
			list = append(list, goneUser{id: id, found: at, created: at})
		}
		clear(g.late)
	}
	return list
}

// end revokes the logins of users who were disabled or deleted. Otherwise these logins would work
// again when the user is enabled. If late is true, end also tries the users again for whom the
// Store failed before.
func (g *goneUsers) end(ctx context.Context, s *Service, late bool) {
	list := g.take(late)
	if len(list) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	for i, u := range list {
		if err := u.end(ctx, s); err != nil {
			g.retry(list[i:])
			s.cfg.Logger.Warn("logins of disabled users not ended yet", "users", len(list)-i, "error", err)
			return
		}
	}
}

// end revokes the families of the user.
func (u goneUser) end(ctx context.Context, s *Service) error {
	families, err := s.cfg.Store.Sessions(ctx, u.id, time.Now())
	if err != nil {
		return err
	}
	if !u.created.IsZero() {
		families = slices.DeleteFunc(families, func(f Family) bool { return f.Created.After(u.created) })
	}
	// An access token may outlive the refresh tokens of its family.
	if len(families) == 0 && s.cfg.RefreshTTL >= s.cfg.AccessTTL {
		return nil
	}
	_, err = s.endUser(ctx, u.id, u.created, audit.Event{Kind: audit.UserEnded, Actor: "gateway", Detail: "user may not log in any more"})
	return err
}
