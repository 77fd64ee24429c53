package auth

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	housekeeping = time.Minute
	expireEvery  = 10 // rounds between two deletions of expired rows
	// revokedMargin is added to the life of tokens, for answers that are still in flight.
	revokedMargin = time.Minute
	// clocksApart is the largest difference between the clocks of two nodes.
	clocksApart = 5 * time.Minute
	// A failed watch of the Store is restarted after watchAgain. The delay doubles up to
	// watchSeldom.
	watchAgain, watchSeldom = 100 * time.Millisecond, 5 * time.Second
	// DeadlineNear is how long before its deadline Config.Expiring returns a socket's family.
	DeadlineNear = 10 * time.Minute
	// familiesAtOnce is the largest number of families in one query of a Store.
	familiesAtOnce = 1000
)

// Run keeps the Service up to date until ctx ends, and returns nil. It applies revocations and
// refreshes of other processes, and deletes expired rows. It reads changed users that could not be
// read before, and users with open sockets if the user base does not report changes. It stores
// revocations that could not be stored before.
func (s *Service) Run(ctx context.Context) error {
	var watch sync.WaitGroup
	defer watch.Wait()
	watch.Go(func() { s.watch(ctx) })
	watch.Go(func() { s.ends.run(ctx, s) })
	if !s.cfg.Watched {
		watch.Go(func() { s.review(ctx) })
	}
	tick := time.NewTicker(housekeeping)
	defer tick.Stop()
	for round := 1; ; round++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		s.readStale(ctx)
		s.storeRevoked(ctx)
		s.gone.end(ctx, s, true)
		s.trusted.reload(ctx)
		s.noteLeftOut(ctx)
		s.reread(ctx)
		s.moveDeadlines(ctx, time.Now())
		if round%expireEvery == 0 {
			s.expire(ctx, time.Now())
		}
	}
}

func (s *Service) expire(ctx context.Context, now time.Time) {
	past := now.Add(-s.cfg.AccessTTL - revokedMargin)
	s.revoked.forget(past)
	if n, err := s.cfg.Store.Expire(ctx, now, past); err != nil && ctx.Err() == nil {
		s.cfg.Logger.Warn("expired families were not deleted", "error", err)
	} else if n > 0 {
		s.cfg.Logger.Debug("expired families deleted", "families", n)
	}
}

// watch applies revocations of other processes as the Store reports them.
func (s *Service) watch(ctx context.Context) {
	for again := watchAgain; ; again = min(2*again, watchSeldom) {
		began := time.Now()
		err := s.watchOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		s.cfg.Logger.Warn("watching revocations failed, retrying", "error", err)
		if time.Since(began) > time.Minute {
			again = watchAgain
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(again):
		}
	}
}

// watchOnce watches until that fails. The watch does not return families that were revoked before
// it began, and it does not report when it has begun. Those families are therefore read at once,
// and twice more after a delay.
func (s *Service) watchOnce(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	reading.Go(func() {
		for _, wait := range []time.Duration{0, time.Second, 4 * time.Second} {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
			s.reread(ctx)
		}
	})
	return s.cfg.Store.Watch(ctx, s.applyRevocations)
}

// applyRevocations applies revocations of this or another process.
func (s *Service) applyRevocations(list []Revocation) {
	for _, r := range list {
		s.familyOver(r.Family, r.At)
	}
}

func (s *Service) reread(ctx context.Context) {
	if err := s.readRevoked(ctx, s.familyOver); err != nil && ctx.Err() == nil {
		s.cfg.Logger.Warn("revoked families not read", "error", err)
	}
}

// readRevoked calls give with the families that were revoked since its last call.
func (s *Service) readRevoked(ctx context.Context, give func(family string, at time.Time)) error {
	s.rereadMu.Lock()
	since := s.rereadAt
	s.rereadMu.Unlock()
	now := time.Now()
	if oldest := now.Add(-s.cfg.AccessTTL); since.Before(oldest) {
		since = oldest
	}
	list, err := s.cfg.Store.Revoked(ctx, since)
	if err != nil {
		return err
	}
	for _, r := range list {
		give(r.Family, r.At)
	}
	s.rereadMu.Lock()
	s.rereadAt = now.Add(-clocksApart)
	s.rereadMu.Unlock()
	return nil
}

// moveDeadlines calls OnRefresh for families with open sockets that another node has refreshed,
// before those sockets close.
func (s *Service) moveDeadlines(ctx context.Context, now time.Time) {
	ids := s.cfg.Expiring()
	for len(ids) > 0 {
		some := ids[:min(len(ids), familiesAtOnce)]
		ids = ids[len(some):]
		families, err := s.cfg.Store.Families(ctx, some)
		if err != nil {
			if ctx.Err() == nil {
				s.cfg.Logger.Warn("families about to expire not read", "error", fmt.Errorf("%d families: %w", len(some), err))
			}
			return
		}
		for i := range families {
			s.moveDeadline(&families[i], now)
		}
	}
}

// moveDeadline calls OnRefresh for one family, unless its newest token is the one that expires
// soon.
func (s *Service) moveDeadline(f *Family, now time.Time) {
	if !f.Revoked.IsZero() {
		s.familyOver(f.ID, f.Revoked)
		return
	}
	expires := f.Used.Truncate(time.Second).Add(s.cfg.AccessTTL.Truncate(time.Second))
	if expires.After(now.Add(min(DeadlineNear, s.cfg.AccessTTL/2))) {
		s.cfg.OnRefresh(f.ID, expires)
	}
}
