package auth

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/audit"
)

// goneUsers has the users who were found to be disabled or deleted and whose families have not been
// revoked yet.
type goneUsers struct {
	mu    sync.Mutex
	found map[string]bool // not tried yet
	late  map[string]bool // the Store failed
}

func (g *goneUsers) add(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.found == nil {
		g.found, g.late = make(map[string]bool), make(map[string]bool)
	}
	if len(g.found) < maxUsers {
		g.found[id] = true
	}
}

// retry queues users for the next round of Run.
func (g *goneUsers) retry(ids []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, id := range ids {
		if len(g.late) < maxUsers {
			g.late[id] = true
		}
	}
}

// take removes and returns the users, with those that failed before if late is set.
func (g *goneUsers) take(late bool) (ids []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	ids = slices.AppendSeq(ids, maps.Keys(g.found))
	clear(g.found)
	if late {
		ids = slices.AppendSeq(ids, maps.Keys(g.late))
		clear(g.late)
	}
	return ids
}

// end revokes the families of users who were disabled or deleted. Without that, their old
// logins would work again when the user is enabled. Run sets late, to try again what the Store
// refused.
func (g *goneUsers) end(ctx context.Context, s *Service, late bool) {
	ids := g.take(late)
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	for i, id := range ids {
		if err := endGoneUser(ctx, s, id); err != nil {
			g.retry(ids[i:])
			s.cfg.Logger.Warn("logins of disabled users not ended yet", "users", len(ids)-i, "error", err)
			return
		}
	}
}

func endGoneUser(ctx context.Context, s *Service, id string) error {
	families, err := s.cfg.Store.Sessions(ctx, id, time.Now())
	if err != nil {
		return err
	}
	// An access token may outlive the refresh tokens of its family.
	if len(families) == 0 && s.cfg.RefreshTTL >= s.cfg.AccessTTL {
		return nil
	}
	_, err = s.endUser(ctx, id, audit.Event{Kind: audit.UserEnded, Actor: "gateway", Detail: "user may not log in any more"})
	return err
}
