package auth

import (
	"context"
	"errors"
	"time"

	"github.com/ruedahq/rueda/internal/base/audit"
)

// Revoke ends the family of an access or refresh token. A foreign token is not an error. An expired
// or dead token of this server works too. If the Store is down, the family ends in this process at
// once and is stored later, and the error is Unavailable, so that the caller tries again.
func (s *Service) Revoke(ctx context.Context, token Secret, from Origin) error {
	err := RevokeOf(ctx, s, token, "", from)
	if IsReason(err, NotFound) {
		return nil
	}
	return err
}

// RevokeOf is Service.Revoke for the token of a login with an id, or of any login if it is empty.
// The reason of the Error is NotFound for a foreign token, and for that of another login.
func RevokeOf(ctx context.Context, s *Service, token Secret, session string, from Origin) error {
	family, err := s.familyOf(ctx, token.Reveal())
	if errors.Is(err, ErrNotFound) || err == nil && session != "" && family != session {
		return refuse(NotFound, errors.New("not a token of this login"))
	}
	if err != nil {
		s.cfg.Logger.Error("logout failed, refresh token not read", "error", err)
		return unavailable(err)
	}
	now := time.Now()
	if err := s.cfg.Store.RevokeFamily(ctx, family, RevokedLogout, logoutEvent(now, from)); err != nil {
		s.cfg.Logger.Error("logout not stored", "family", family, "error", err)
		if s.revoked.addUnstored(family, now) {
			s.cfg.OnRevoke(family)
		}
		return unavailable(err)
	}
	s.revoked.stored(family)
	s.cfg.Logger.Info("logout", "family", family)
	s.familyOver(family, now)
	return nil
}

func logoutEvent(at time.Time, from Origin) audit.Event {
	return audit.Event{Time: at, Kind: audit.Logout, Actor: "client", Address: addressText(from), Client: clientText(from)}
}

// storeRevoked stores logouts that could not be stored when they were requested.
func (s *Service) storeRevoked(ctx context.Context) {
	for family, at := range s.revoked.allUnstored() {
		if err := s.cfg.Store.RevokeFamily(ctx, family, RevokedLogout, logoutEvent(at, Origin{})); err != nil {
			s.cfg.Logger.Warn("logouts still not stored", "error", err)
			return
		}
		s.revoked.stored(family)
	}
}

func (s *Service) familyOf(ctx context.Context, token string) (string, error) {
	if token, ok := parseRefreshToken(token); ok {
		family, err := s.familyOfRefresh(ctx, token)
		return family.ID, err
	}
	c, err := s.signed(token)
	if err != nil {
		return "", ErrNotFound
	}
	return c.Family, nil
}

// familyOver reports a stored revocation to token checks and then to sockets, once.
func (s *Service) familyOver(family string, at time.Time) {
	if s.revoked.add(family, at) {
		s.cfg.OnRevoke(family)
	}
}
