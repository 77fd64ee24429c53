package auth

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
	"github.com/ruedahq/rueda/internal/identity/auth/throttle"
)

// Limits of what a client may send, in bytes.
const (
	maxUsername     = 128
	maxPassword     = 1024
	maxRefreshToken = 1024 // those of this server have 52
	maxOTP          = 64
	maxClientKept   = 200
)

// checkPatience is how long a user base may take to check a password.
const checkPatience = 15 * time.Second

// Password is the password grant. It starts a token family. otp is the one-time password of the
// second factor, or "" if the client sent none. The reason of the Error is InvalidRequest,
// InvalidCredentials, MFARequired, EnrolmentRequired, PasswordChangeRequired, SecondFactorLocked,
// AddressNotAllowed, RateLimited, TooManyFailures or Unavailable. The answer is the same for an
// unknown user, a wrong password and a disabled user.
func (s *Service) Password(ctx context.Context, username, password, otp string, from Origin) (Tokens, error) {
	user, _, err := checkLogin(ctx, s, broker.Login{Username: username, Password: password, OTP: otp}, nil, from)
	if err != nil {
		return Tokens{}, err
	}
	return s.login(ctx, user, from)
}

// checkLogin checks the credentials of a login, or of a user who changes them. lacking is what the
// change corrects, so that it is no error: broker.ErrEnrolmentRequired, broker.ErrPasswordChange or
// nil. read is the number of the read that returned the user.
func checkLogin(ctx context.Context, s *Service, login broker.Login, lacking error, from Origin) (user broker.User, read uint64, err error) {
	if err := checkUsername(login.Username); err != nil {
		return broker.User{}, 0, refuse(InvalidRequest, err)
	}
	if len(login.Password) > maxPassword || !utf8.ValidString(login.Password) {
		return broker.User{}, 0, refuse(InvalidRequest, errors.New("password is longer than 1024 bytes or not UTF-8"))
	}
	if len(login.OTP) > maxOTP {
		return broker.User{}, 0, refuse(InvalidRequest, errors.New("one-time password is too long"))
	}
	login.OTP = strings.ReplaceAll(login.OTP, " ", "") // people type them
	login.Address, login.Client = from.Address, from.Client
	// A user base may ignore case in names. All spellings are one account here.
	name := strings.ToLower(login.Username)
	attempt, denied := s.throttle.Attempt(ctx, name, from.Address, login.OTP == "")
	if denied != nil {
		return broker.User{}, 0, s.throttled(ctx, denied, name, from)
	}
	defer attempt.Complete(ctx, throttle.Refunded) // in case the user base panics; only the first call counts
	// The check continues when the client disconnects. Otherwise an attacker could disconnect
	// before the attempt is charged.
	checkCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkPatience)
	defer cancel()
	read = s.users.begin()
	user, err = s.authenticate(checkCtx, login)
	onlyCorrects := err != nil && lacking != nil && errors.Is(err, lacking)
	if onlyCorrects {
		err = nil
	}
	if err == nil && !broker.AddressAllowed(user.Networks, from.Address) {
		err = errAddress
	}
	denied = attempt.Answered(checkCtx, answerOf(err), user.ID)
	if denied != nil && denied.Reason == TooManyFailures {
		return broker.User{}, 0, s.delayReject(ctx, attempt, &login, user.ID, denied.RetryAfter, from)
	}
	if err != nil {
		return broker.User{}, 0, s.refuseLogin(ctx, attempt, &login, user.ID, err, from)
	}
	attempt.Complete(ctx, throttle.Succeeded)
	s.trusted.save(ctx, attempt, user.ID, from)
	if denied != nil {
		return broker.User{}, 0, s.throttled(ctx, denied, name, from)
	}
	if !onlyCorrects {
		s.note(read, knownUser{user: user})
	}
	return user, read, nil
}

// answerOf returns what the result of a password check says about the password.
func answerOf(err error) throttle.Answer {
	switch {
	case err == nil, isIncomplete(err), errors.Is(err, broker.ErrBadUser):
		return throttle.Right
	case errors.Is(err, errAddress):
		return throttle.RightOutside
	case errors.Is(err, broker.ErrInvalidCredentials) && !errors.Is(err, broker.ErrNotAsked):
		return throttle.Wrong
	}
	return throttle.NotChecked
}

// throttled returns the error for an attempt that the limits refuse, and records it.
func (s *Service) throttled(ctx context.Context, denied *throttle.Error, name string, from Origin) error {
	if denied.Reason != Unavailable {
		s.cfg.Logger.Debug("login throttled", "reason", denied.Reason, "address", from.Address)
		s.loginThrottled(ctx, denied.Reason, name, from)
	}
	return refusal(denied)
}

// refuseLogin settles an attempt that the user base refused or could not check, and returns the
// error for the client. If the audit log cannot record the refusal, the attempt is not charged and
// the answer is Unavailable.
func (s *Service) refuseLogin(ctx context.Context, attempt *throttle.Attempt, login *broker.Login, user string, cause error, from Origin) error {
	reason, kind, detail := InvalidCredentials, audit.LoginRefused, ""
	switch {
	case errors.Is(cause, broker.ErrSecondFactor) && login.OTP == "":
		reason = MFARequired
	case errors.Is(cause, errAddress):
		reason, kind = AddressNotAllowed, audit.PasswordExposed
	case errors.Is(cause, broker.ErrEnrolmentRequired):
		reason = EnrolmentRequired
	case errors.Is(cause, broker.ErrPasswordChange):
		reason = PasswordChangeRequired
	case errors.Is(cause, broker.ErrFactorLocked):
		reason, kind = SecondFactorLocked, audit.PasswordExposed
	case errors.Is(cause, broker.ErrWrongOTP), errors.Is(cause, broker.ErrSecondFactor): // the client learns no more than after a wrong password
		kind, detail = audit.PasswordExposed, "wrong_otp"
	case errors.Is(cause, broker.ErrInvalidCredentials):
	default:
		how := throttle.Unanswered
		if errors.Is(cause, broker.ErrBadUser) { // the user base works: others at this address do not wait
			how = throttle.Refunded
		}
		attempt.Complete(ctx, how)
		s.cfg.Logger.Warn("login failed", "user", user, "error", cause)
		return unavailable(cause)
	}
	if err := s.loginRefused(ctx, kind, cmp.Or(detail, reason), login, user, from); err != nil {
		attempt.Complete(ctx, throttle.Refunded)
		s.cfg.Logger.Error("refused login not written to the audit log", "error", err)
		return unavailable(err)
	}
	// The username is not logged, because people type passwords there.
	s.cfg.Logger.Info("login refused", "reason", reason, "error", cause, "address", from.Address)
	switch reason {
	case InvalidCredentials, SecondFactorLocked:
		attempt.Complete(ctx, throttle.Failed)
	case AddressNotAllowed:
		attempt.Complete(ctx, throttle.Outside)
	default:
		attempt.Complete(ctx, throttle.Incomplete)
	}
	return refuse(reason, cause)
}

// isIncomplete reports whether a refused login had the right password, and its user has to do
// something more.
func isIncomplete(err error) bool {
	return errors.Is(err, broker.ErrSecondFactor) || errors.Is(err, broker.ErrEnrolmentRequired) || errors.Is(err, broker.ErrPasswordChange)
}

// delayReject refuses an attempt, with a correct password or not, for a user who has to wait
// because of attempts with another spelling of the name.
func (s *Service) delayReject(ctx context.Context, attempt *throttle.Attempt, login *broker.Login, user string, wait time.Duration, from Origin) error {
	if err := s.loginRefused(ctx, audit.LoginRefused, TooManyFailures, login, user, from); err != nil {
		attempt.Complete(ctx, throttle.Refunded)
		s.cfg.Logger.Error("refused login not written to the audit log", "error", err)
		return unavailable(err)
	}
	attempt.Complete(ctx, throttle.Failed)
	return &Error{Reason: TooManyFailures, RetryAfter: wait}
}

// authenticate does not pass an empty password to the user base. Some user bases (LDAP) treat it as
// an anonymous login, which succeeds.
func (s *Service) authenticate(ctx context.Context, login broker.Login) (broker.User, error) {
	if login.Password == "" {
		return broker.User{}, broker.ErrNotAsked
	}
	return s.cfg.Users.Authenticate(ctx, login)
}

// login starts a token family for a user whose credentials are correct. The family is stored before
// login returns its tokens.
func (s *Service) login(ctx context.Context, user broker.User, from Origin) (Tokens, error) {
	if err := ctx.Err(); err != nil {
		return Tokens{}, unavailable(err) // the client has disconnected: do not create a family
	}
	now := time.Now()
	family := Family{
		ID:          keyset.RandomID(16),
		UserID:      user.ID,
		UserVersion: user.Version,
		KeyID:       s.cfg.Keys.Deriver(),
		Created:     now,
		Used:        now,
		Address:     addressText(from),
		Client:      clientText(from),
	}
	_, _ = rand.Read(family.Seed[:])
	token := newFirstToken(s.keyed)
	end := s.refreshEnd(&family, now, from)
	first := RefreshToken{Hash: token.hash(), Family: family.ID, Issued: now, Expires: end, Kept: end}
	tokens, c, err := s.tokens(user, family.ID, token, end, now, from)
	if err != nil {
		return Tokens{}, err
	}
	if err := s.cfg.Store.CreateFamily(ctx, family, first); err != nil {
		s.cfg.Logger.Error("login not stored", "error", err)
		return Tokens{}, unavailable(err)
	}
	s.granted(&tokens, c)
	s.cfg.Logger.Info("login", "user", user.ID, "family", family.ID, "address", from.Address)
	s.endOldest(ctx, family)
	return tokens, nil
}

// Refresh is the refresh grant. The reason of the Error is InvalidRequest (the token is far too
// long), InvalidRefreshToken, AddressNotAllowed, RateLimited or Unavailable.
func (s *Service) Refresh(ctx context.Context, refreshToken Secret, from Origin) (Tokens, error) {
	return RefreshOf(ctx, s, refreshToken, "", from)
}

// RefreshOf is Service.Refresh for the token of a login with an id, or of any login if it is empty.
// The token of another login is not used, and the reason of the Error is InvalidRefreshToken.
func RefreshOf(ctx context.Context, s *Service, refreshToken Secret, session string, from Origin) (Tokens, error) {
	text := refreshToken.Reveal()
	if len(text) > maxRefreshToken {
		return Tokens{}, refuse(InvalidRequest, errors.New("refresh token is too long"))
	}
	token, ok := parseRefreshToken(text)
	if !ok {
		return Tokens{}, refuse(InvalidRefreshToken, errors.New("not a refresh token"))
	}
	counted := s.LimitKey(refreshToken, from)
	if refused := refusal(s.throttle.TokenAllowed(counted, time.Now())); refused != nil {
		return Tokens{}, refused
	}
	family, err := s.familyOfRefresh(ctx, token)
	if errors.Is(err, ErrNotFound) {
		s.throttle.UnknownToken(counted, time.Now())
		s.refreshRefused(ctx, "unknown token", Family{}, from)
		return Tokens{}, refuse(InvalidRefreshToken, err)
	}
	if err != nil {
		s.cfg.Logger.Error("refresh token not read", "error", err)
		return Tokens{}, unavailable(err)
	}
	if refused := refusal(s.throttle.Refresh(family.ID, family.UserID, time.Now())); refused != nil {
		s.cfg.Logger.Debug("refresh throttled", "family", family.ID, "address", from.Address)
		s.refreshRefused(ctx, refused.Reason, family, from)
		return Tokens{}, refused
	}
	if session != "" && session != family.ID {
		s.refreshRefused(ctx, "token of another login", family, from)
		return Tokens{}, refuse(InvalidRefreshToken, errors.New("token of another login"))
	}
	tokens, err := s.refresh(ctx, token, &family, from)
	refused, _ := errors.AsType[*Error](err)
	if refused != nil && (refused.Reason == InvalidRefreshToken || refused.Reason == AddressNotAllowed) && !errors.Is(err, errReused) {
		s.refreshRefused(ctx, refused.Err.Error(), family, from)
	}
	return tokens, err
}

// errReused is the cause that is recorded with the end of the family.
var errReused = errors.New(Reused.String())

// familyOfRefresh reads the family of a refresh token. The error is ErrNotFound if the token is
// unknown, or is a forged successor.
func (s *Service) familyOfRefresh(ctx context.Context, token refreshToken) (Family, error) {
	if !token.isSuccessor() {
		_, family, err := s.cfg.Store.Lookup(ctx, token.hash())
		return family, err
	}
	_, family, err := s.cfg.Store.Lookup(ctx, token.parent())
	if errors.Is(err, ErrNotFound) { // the row of an expired token
		_, family, err = s.cfg.Store.Lookup(ctx, token.hash())
	}
	if err != nil {
		return family, err
	}
	genuine, known := token.genuine(s.cfg.Keys, &family)
	switch {
	case !known:
		s.cfg.Logger.Warn("the key file does not have this secret, its token families have ended", "key", family.KeyID)
		return Family{}, ErrNotFound
	case !genuine:
		return Family{}, ErrNotFound
	}
	return family, nil
}

func (s *Service) refresh(ctx context.Context, token refreshToken, family *Family, from Origin) (Tokens, error) {
	if s.revoked.has(family.ID) { // the Store may not know this yet
		return Tokens{}, refuse(InvalidRefreshToken, errors.New("login has ended"))
	}
	user, err := s.recheck(ctx, *family)
	if err != nil {
		return Tokens{}, err
	}
	if !broker.AddressAllowed(user.Networks, from.Address) {
		return Tokens{}, refuse(AddressNotAllowed, errAddress)
	}
	return s.rotate(ctx, user, token, family, from)
}

// recheck asks the user base itself, without the memory of users, whether the user of family may
// still have tokens. After an error it does not ask about this user for a while, so that one user
// does not make the user base look down.
func (s *Service) recheck(ctx context.Context, family Family) (broker.User, error) {
	if k, ok := s.users.get(family.UserID); ok && time.Now().Before(k.later) {
		return broker.User{}, unavailable(errors.New("the user base did not answer about this user a moment ago"))
	}
	k, err := s.readUser(ctx, family.UserID)
	switch {
	case err != nil:
		s.cfg.Logger.Warn("refresh failed", "error", err)
		return broker.User{}, unavailable(err)
	case k.gone:
		return broker.User{}, refuse(InvalidRefreshToken, errors.New("user may not log in any more"))
	case k.user.Version != family.UserVersion:
		return broker.User{}, refuse(InvalidRefreshToken, errors.New("login is older than the user's last change"))
	}
	return k.user, nil
}

func (s *Service) rotate(ctx context.Context, user broker.User, token refreshToken, family *Family, from Origin) (Tokens, error) {
	now := time.Now()
	end := s.refreshEnd(family, now, from)
	if !now.Before(end) { // the maximum age may have been configured after the login
		return Tokens{}, refuse(InvalidRefreshToken, errors.New("login is too long ago"))
	}
	successor, ok := newSuccessor(s.cfg.Keys, s.keyed, family, token.hash(), now, end)
	if !ok {
		s.cfg.Logger.Warn("the key file does not have this secret, its token families have ended", "key", family.KeyID)
		return Tokens{}, refuse(InvalidRefreshToken, errors.New("refresh secret is missing"))
	}
	tokens, c, err := s.tokens(user, family.ID, successor, end, now, from)
	if err != nil {
		return Tokens{}, err
	}
	rotation := Rotation{
		Presented: token.hash(),
		Parent:    token.parent(),
		Now:       now,
		End:       end,
		Strict:    s.cfg.Rotation == RotationStrict,
		Grace:     s.cfg.GracePeriod,
		Address:   addressText(from),
		Client:    clientText(from),
	}
	if token.isSuccessor() {
		rotation.Issued, rotation.Expires = token.times()
	}
	outcome, err := s.cfg.Store.Rotate(ctx, rotation)
	if err != nil {
		s.cfg.Logger.Error("refresh not stored", "family", family.ID, "error", err)
		return Tokens{}, unavailable(err)
	}
	switch outcome {
	case Granted:
		s.granted(&tokens, c)
		s.cfg.Logger.Debug("refresh", "user", user.ID, "family", family.ID, "address", from.Address)
		s.cfg.OnRefresh(family.ID, time.Unix(c.Expires, 0))
		return tokens, nil
	case Reused:
		s.cfg.Logger.Warn("dead refresh token presented, family revoked", "user", user.ID, "family", family.ID, "address", from.Address)
		s.familyOver(family.ID, now)
		return Tokens{}, refuse(InvalidRefreshToken, errReused)
	}
	return Tokens{}, refuse(InvalidRefreshToken, errors.New(outcome.String()))
}

// refreshEnd returns when a refresh token that is answered now expires.
func (s *Service) refreshEnd(family *Family, now time.Time, from Origin) time.Time {
	end := now.Add(s.cfg.RefreshTTL)
	if idle := now.Add(from.Idle); from.Idle > 0 && idle.Before(end) {
		end = idle
	}
	if last := family.Created.Add(s.cfg.FamilyMaxAge); last.Before(end) {
		return last
	}
	return end
}

func checkUsername(username string) error {
	switch {
	case username == "" || len(username) > maxUsername:
		return errors.New("username must have 1 to 128 bytes")
	case !utf8.ValidString(username) || strings.ContainsFunc(username, unicode.IsControl):
		return errors.New("username has control characters or is not UTF-8")
	}
	return nil
}

func addressText(from Origin) string {
	if !from.Address.IsValid() {
		return ""
	}
	return from.Address.Unmap().String()
}

// clientText returns the User-Agent as it is stored: truncated, printable and in one line.
func clientText(from Origin) string {
	text := from.Client
	if len(text) > maxClientKept {
		text = text[:maxClientKept]
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, text)
}
