package auth

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/base/audit"
)

// Session is an active login, as its user may see it.
type Session struct {
	ID      string
	Created time.Time
	Used    time.Time // last grant; of the current session only the hour, which does not help to time a theft
	Address string    // of the last grant; "" unknown
	Client  string    // User-Agent of the last grant
	Current bool      // the session of this request
}

// Sessions returns the logins of the user of an access token, the last used first. The reason of
// the Error is Unavailable.
func (s *Service) Sessions(ctx context.Context, id Identity) ([]Session, error) {
	return s.sessions(ctx, id.User.ID, id.User.Version, id.Family)
}

// SessionsOf returns the logins of a user, for an administrator. A user who may not log in has
// none. The reason of the Error is NotFound for an unknown user, or Unavailable.
func (s *Service) SessionsOf(ctx context.Context, userID string) ([]Session, error) {
	user, err := s.cfg.Users.User(ctx, userID)
	switch {
	case errors.Is(err, broker.ErrNotFound):
		return nil, refuse(NotFound, err)
	case errors.Is(err, broker.ErrDisabled):
		return []Session{}, nil
	case err != nil:
		return nil, unavailable(err)
	}
	return s.sessions(ctx, userID, user.Version, "")
}

func (s *Service) sessions(ctx context.Context, userID string, version int64, current string) ([]Session, error) {
	families, err := s.cfg.Store.Sessions(ctx, userID, time.Now())
	if err != nil {
		return nil, unavailable(err)
	}
	list := []Session{}
	for _, f := range families {
		// A change of the password ended older families, but the Store does not record that.
		if f.UserVersion == version && !s.revoked.has(f.ID) {
			if f.ID == current {
				f.Used = f.Used.Truncate(time.Hour)
			}
			list = append(list, Session{f.ID, f.Created, f.Used, f.Address, f.Client, f.ID == current})
		}
	}
	return list, nil
}

// EndSession ends the login of an access token, whose id is session. The reason of the Error is
// Unavailable, NotFound if the user has no such active login, or Forbidden if it is another one:
// somebody with a stolen token must not end those of its owner.
func (s *Service) EndSession(ctx context.Context, id Identity, session string, from Origin) error {
	if session != id.Family {
		list, err := s.Sessions(ctx, id)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(list, func(o Session) bool { return o.ID == session }) {
			return refuse(Forbidden, errOthers)
		}
		return refuse(NotFound, errors.New("there is no such session"))
	}
	from.Actor = "user"
	return endSession(ctx, s, id.User.ID, session, from)
}

// errOthers is the cause of Forbidden for a request to end other logins with a token.
var errOthers = errors.New("other logins are ended with the password")

// NeedsPassword reports whether a request was refused because it needs the password.
func NeedsPassword(err error) bool { return errors.Is(err, errOthers) }

// EndAnySession ends one login of any user, for an administrator. The reason of the Error is
// Unavailable, or NotFound if there is no such active login.
func (s *Service) EndAnySession(ctx context.Context, session string, from Origin) error {
	from.Actor = cmp.Or(from.Actor, "administrator")
	return endSession(ctx, s, "", session, from)
}

// endSession ends one login of a user, or of any user if userID is empty.
func endSession(ctx context.Context, s *Service, userID, session string, from Origin) error {
	families, err := s.cfg.Store.Families(ctx, []string{session})
	if err != nil {
		return unavailable(err)
	}
	if len(families) == 0 || userID != "" && families[0].UserID != userID || !families[0].Revoked.IsZero() {
		return refuse(NotFound, errors.New("there is no such session"))
	}
	now := time.Now()
	err = s.cfg.Store.RevokeFamily(ctx, session, RevokedSession, audit.Event{
		Time: now, Kind: audit.SessionEnded, Actor: from.Actor, Address: addressText(from), Client: clientText(from),
	})
	if err != nil {
		return unavailable(err)
	}
	s.cfg.Logger.Info("session ended", "user", families[0].UserID, "family", session)
	s.familyOver(session, now)
	return nil
}

// EndSessions ends the login of an access token, unless keepCurrent is set, and returns the number
// of ended ones. The reason of the Error is Unavailable, or Forbidden if the user has other logins,
// which EndLogins ends.
func (s *Service) EndSessions(ctx context.Context, id Identity, keepCurrent bool, from Origin) (int, error) {
	list, err := s.Sessions(ctx, id)
	switch {
	case err != nil:
		return 0, err
	case slices.ContainsFunc(list, func(o Session) bool { return !o.Current }):
		return 0, refuse(Forbidden, errOthers)
	case keepCurrent:
		return 0, nil
	}
	if err := s.EndSession(ctx, id, id.Family, from); err != nil {
		return 0, err
	}
	return 1, nil
}

// EndLogins ends logins of a user, who is authenticated by login as for a login, and returns their
// number: the one with the id session, or all except keep if that is empty. The reason of the Error
// is one of Password, or NotFound if the user has no such active login.
func EndLogins(ctx context.Context, s *Service, login broker.Login, session, keep string, from Origin) (int, error) {
	user, _, err := checkLogin(ctx, s, login, nil, from)
	if err != nil {
		return 0, err
	}
	from.Actor = "user"
	if session != "" {
		if err := endSession(ctx, s, user.ID, session, from); err != nil {
			return 0, err
		}
		return 1, nil
	}
	if keep == "" {
		return s.endUser(ctx, user.ID, time.Time{}, audit.Event{Kind: audit.UserEnded, Actor: "user", Address: addressText(from), Client: clientText(from)})
	}
	list, err := s.sessions(ctx, user.ID, user.Version, keep)
	if err != nil {
		return 0, err
	}
	ended := 0
	for _, one := range list {
		if one.Current {
			continue
		}
		switch err := endSession(ctx, s, user.ID, one.ID, from); {
		case err == nil:
			ended++
		case IsReason(err, NotFound): // it has already ended
		default:
			return ended, err
		}
	}
	return ended, nil
}

// EndUser ends all logins of a user, for an administrator, and returns their number. The reason of
// the Error is Unavailable, or NotFound if there is neither such a user nor a login of a former
// one.
func (s *Service) EndUser(ctx context.Context, userID string, from Origin) (int, error) {
	families, err := s.cfg.Store.Sessions(ctx, userID, time.Now())
	if err != nil {
		return 0, unavailable(err)
	}
	if len(families) == 0 { // otherwise the user base is not needed
		_, err := s.cfg.Users.User(ctx, userID)
		switch {
		case errors.Is(err, broker.ErrNotFound):
			return 0, refuse(NotFound, err)
		case err != nil && !errors.Is(err, broker.ErrDisabled):
			return 0, unavailable(err)
		}
	}
	return s.endUser(ctx, userID, time.Time{}, audit.Event{Kind: audit.UserEnded, Actor: cmp.Or(from.Actor, "administrator"), Address: addressText(from), Client: clientText(from)})
}

// endUser ends the logins of a user that were created by a time, or all if it is zero, and appends
// e to the audit log.
func (s *Service) endUser(ctx context.Context, userID string, created time.Time, e audit.Event) (int, error) {
	e.Time = time.Now()
	families, err := s.cfg.Store.RevokeUser(ctx, userID, RevokedUser, created, e)
	if err != nil {
		return 0, unavailable(err)
	}
	s.cfg.Logger.Info("user's families revoked", "user", userID, "families", len(families))
	for _, family := range families {
		s.familyOver(family, e.Time)
	}
	return len(families), nil
}

const (
	// endedAtOnce is the largest number of logins that one new login ends.
	endedAtOnce = 20
	// endPatience is how long that may take.
	endPatience = 5 * time.Second
)

// endOldest ends the least recently used logins of a user above Config.MaxSessions. It continues
// when the client disconnects. Otherwise a client could exceed the limit by disconnecting early.
func (s *Service) endOldest(ctx context.Context, login Family) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	now := time.Now()
	list, err := s.cfg.Store.Sessions(ctx, login.UserID, now)
	if err != nil {
		s.cfg.Logger.Warn("logins of a user not counted", "user", login.UserID, "error", err)
		return
	}
	most := s.cfg.MaxSessions
	list = slices.DeleteFunc(list, func(f Family) bool { return f.ID == login.ID })
	for i := len(list) - 1; i >= most-1 && len(list)-i <= endedAtOnce; i-- {
		f := list[i]
		err := s.cfg.Store.RevokeFamily(ctx, f.ID, RevokedLimit, audit.Event{
			Time: now, Kind: audit.SessionEnded, Actor: "gateway", Address: login.Address, Client: login.Client,
			Detail: "too many logins of the user",
		})
		if err != nil {
			s.cfg.Logger.Warn("excess login not ended", "user", login.UserID, "family", f.ID, "error", err)
			return
		}
		s.cfg.Logger.Info("login ended, the user has too many", "user", login.UserID, "family", f.ID, "most", most)
		s.familyOver(f.ID, now)
	}
}

// Values of Introspection.TokenType.
const (
	TypeAccess  = "access_token"
	TypeRefresh = "refresh_token"
)

// Introspection is the answer of RFC 7662 about a token. For a token that is not valid, only Active
// is set, to false.
type Introspection struct {
	Active    bool
	Subject   string
	Username  string
	Scope     string
	ClientID  string
	TokenType string // TypeAccess or TypeRefresh
	Issuer    string // of an access token
	Audience  string // of an access token
	Session   string
	Issued    time.Time
	Expires   time.Time
}

// Introspect reports whether a token is valid now. The reason of the Error is Unavailable.
func (s *Service) Introspect(ctx context.Context, token Secret) (Introspection, error) {
	if token, ok := parseRefreshToken(token.Reveal()); ok {
		return introspectRefresh(ctx, s, token)
	}
	id, err := s.Verify(ctx, token.Reveal())
	if refused, _ := errors.AsType[*Error](err); refused != nil && refused.Reason == Unavailable {
		return Introspection{}, err
	}
	if err != nil {
		return Introspection{}, nil
	}
	state := introspection(&id.User, TypeAccess, id.Family, id.Issued, id.Expires)
	state.Issuer, state.Audience = s.cfg.Issuer, s.cfg.Audience
	return state, nil
}

func introspectRefresh(ctx context.Context, s *Service, token refreshToken) (Introspection, error) {
	family, err := s.familyOfRefresh(ctx, token)
	if err == nil && (!family.Revoked.IsZero() || s.revoked.has(family.ID)) {
		return Introspection{}, nil
	}
	var alive bool
	var issued, expires time.Time
	if err == nil {
		alive, issued, expires, err = isAlive(ctx, s.cfg.Store, token)
	}
	switch {
	case errors.Is(err, ErrNotFound):
		return Introspection{}, nil
	case err != nil:
		return Introspection{}, unavailable(err)
	case !alive || !time.Now().Before(expires):
		return Introspection{}, nil
	}
	user, err := s.recheck(ctx, family)
	if refused, _ := errors.AsType[*Error](err); refused != nil && refused.Reason == Unavailable {
		return Introspection{}, err
	}
	if err != nil {
		return Introspection{}, nil
	}
	return introspection(&user, TypeRefresh, family.ID, issued, expires), nil
}

// isAlive reports whether neither a successor of a refresh token nor another successor of its
// parent has replaced the token. It also returns the token's times.
func isAlive(ctx context.Context, store Store, token refreshToken) (alive bool, issued, expires time.Time, err error) {
	row, _, err := store.Lookup(ctx, token.hash())
	if err == nil {
		issued, expires = row.Issued, row.Expires
	} else if errors.Is(err, ErrNotFound) && token.isSuccessor() { // not used yet
		issued, expires = token.times()
		row.Parent = token.parent()
		err = nil
	}
	if err != nil || !row.Dead.IsZero() || row.Parent == (Hash{}) {
		return err == nil && row.Dead.IsZero(), issued, expires, err
	}
	parent, _, err := store.Lookup(ctx, row.Parent)
	if errors.Is(err, ErrNotFound) {
		return true, issued, expires, nil // all other successors have expired
	}
	return err == nil && (parent.Successor == (Hash{}) || parent.Successor == token.hash()), issued, expires, err
}

func introspection(user *broker.User, kind, session string, issued, expires time.Time) Introspection {
	return Introspection{
		Active: true, Subject: user.ID, Username: user.Username, Scope: strings.Join(user.Scopes, " "),
		ClientID: clientID, TokenType: kind, Session: session, Issued: issued, Expires: expires,
	}
}
