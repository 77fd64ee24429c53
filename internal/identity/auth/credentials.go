package auth

import (
	"context"
	"errors"

	"github.com/ruedahq/rueda/broker"
)

// SelfService lets users change their own passwords and second factors. A change is authorized by
// the current password and second factor, not by a token. They are checked and rate-limited like
// those of a login.
type SelfService struct {
	service *Service
}

// NewSelfService returns the SelfService of the users of s.
func NewSelfService(s *Service) *SelfService { return &SelfService{s} }

// ChangePassword changes the password of a user, who is authenticated by login. It ends all earlier
// logins and returns the tokens of a new one. The reason of the Error is one of Password,
// WeakPassword (nothing was checked), or Unsupported if the user base does not implement
// broker.SelfService. After Unavailable the password may have changed. It has changed if
// PasswordChanged reports so: the user must enrol a second factor before logging in.
func (o *SelfService) ChangePassword(ctx context.Context, login broker.Login, password string, from Origin) (Tokens, error) {
	base, err := o.base()
	if err != nil {
		return Tokens{}, err
	}
	// The new password comes first: a weak one must not use up a one-time password.
	if password == login.Password {
		return Tokens{}, refuse(WeakPassword, &broker.PasswordError{Problem: "must not be the current one"})
	}
	if err := base.CheckPassword(login.Username, password); err != nil {
		return Tokens{}, o.refused(err)
	}
	user, read, err := checkLogin(ctx, o.service, login, broker.ErrPasswordChange, from)
	if err != nil {
		return Tokens{}, err
	}
	changeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkPatience)
	defer cancel()
	if user, err = base.ChangePassword(changeCtx, user, password, Caller(from)); err != nil {
		return Tokens{}, o.refused(err)
	}
	o.service.cfg.Logger.Info("password changed by the user", "user", user.ID, "address", from.Address)
	return o.login(ctx, read, user, from)
}

// Enrol returns a new second factor for a user, who is authenticated by login. ConfirmEnrolment
// makes it valid. Errors are those of ChangePassword.
func (o *SelfService) Enrol(ctx context.Context, login broker.Login, from Origin) (broker.Enrolment, error) {
	base, user, err := o.user(ctx, login, broker.ErrEnrolmentRequired, from)
	if err != nil {
		return broker.Enrolment{}, err
	}
	e, err := base.BeginEnrolment(ctx, user)
	if err != nil {
		return broker.Enrolment{}, o.refused(err)
	}
	return e, nil
}

// ConfirmEnrolment makes the second factor of an enrolment valid. otp is a one-time password of it.
// It ends all earlier logins of the user, and returns the tokens of a new one and recovery codes.
// The reason of the Error is InvalidEnrolment, InvalidOTP, Unsupported or Unavailable.
func (o *SelfService) ConfirmEnrolment(ctx context.Context, token Secret, otp string, from Origin) (Tokens, []string, error) {
	base, err := o.base()
	if err != nil {
		return Tokens{}, nil, err
	}
	read := o.service.users.begin()
	user, codes, err := base.ConfirmEnrolment(ctx, token.Reveal(), otp, Caller(from))
	if errors.Is(err, broker.ErrAddress) {
		return Tokens{}, nil, CheckAddress(ctx, o.service, user.ID, "", user.Networks, from)
	}
	if err != nil {
		return Tokens{}, nil, o.refused(err)
	}
	o.service.cfg.Logger.Info("second factor confirmed", "user", user.ID, "address", from.Address)
	tokens, err := o.login(ctx, read, user, from)
	return tokens, codes, err
}

// RenewRecoveryCodes replaces the recovery codes of a user, who is authenticated by login. Errors
// are those of ChangePassword. The error is also Unsupported if the user has no second factor.
func (o *SelfService) RenewRecoveryCodes(ctx context.Context, login broker.Login, from Origin) ([]string, error) {
	base, user, err := o.user(ctx, login, nil, from)
	if err != nil {
		return nil, err
	}
	codes, err := base.RenewRecoveryCodes(ctx, user, Caller(from))
	if err != nil {
		return nil, o.refused(err)
	}
	return codes, nil
}

// RemoveSecondFactor removes the second factor of a user, who is authenticated by login. Errors are
// those of RenewRecoveryCodes, and Forbidden if a group requires one.
func (o *SelfService) RemoveSecondFactor(ctx context.Context, login broker.Login, from Origin) error {
	base, user, err := o.user(ctx, login, nil, from)
	if err != nil {
		return err
	}
	if err := base.RemoveSecondFactor(ctx, user, Caller(from)); err != nil {
		return o.refused(err)
	}
	return nil
}

// user authenticates a user who changes the second factor. lacking is that of checkLogin.
func (o *SelfService) user(ctx context.Context, login broker.Login, lacking error, from Origin) (broker.SelfService, broker.User, error) {
	base, err := o.base()
	if err != nil {
		return nil, broker.User{}, err
	}
	user, _, err := checkLogin(ctx, o.service, login, lacking, from)
	return base, user, err
}

// errPasswordChanged is the cause of EnrolmentRequired after a change of the password.
var errPasswordChanged = errors.New("the password has changed")

// PasswordChanged reports whether a refused ChangePassword has changed the password.
func PasswordChanged(err error) bool { return errors.Is(err, errPasswordChanged) }

func (o *SelfService) base() (broker.SelfService, error) {
	if base, ok := o.service.cfg.Users.(broker.SelfService); ok {
		return base, nil
	}
	return nil, refuse(Unsupported, errors.New("passwords and second factors are managed in the broker's user base"))
}

// login logs in a user whose credentials have changed. The sockets of earlier logins end first.
// read is the number of the read that returned the user: rights may have changed since.
func (o *SelfService) login(ctx context.Context, read uint64, user broker.User, from Origin) (Tokens, error) {
	s := o.service
	s.note(read, knownUser{user: user})
	return s.login(ctx, user, from)
}

// Caller returns the client of a request, for changes of users.
func Caller(from Origin) broker.Caller {
	return broker.Caller{Address: from.Address, Client: clientText(from)}
}

// refused returns the error for a failed change of credentials.
func (o *SelfService) refused(err error) error {
	weak := (*broker.PasswordError)(nil)
	switch {
	case errors.As(err, &weak):
		return refuse(WeakPassword, err)
	case errors.Is(err, broker.ErrEnrolment):
		return refuse(InvalidEnrolment, err)
	case errors.Is(err, broker.ErrOTP):
		return refuse(InvalidOTP, err)
	case errors.Is(err, broker.ErrNoFactor):
		return refuse(Unsupported, err)
	case errors.Is(err, broker.ErrEnrolmentRequired):
		return refuse(EnrolmentRequired, errPasswordChanged)
	case errors.Is(err, broker.ErrFactor):
		return refuse(Forbidden, err)
	case errors.Is(err, broker.ErrInvalidCredentials):
		return refuse(InvalidCredentials, errors.New("the user has changed meanwhile"))
	}
	o.service.cfg.Logger.Warn("credentials not changed", "error", err)
	return unavailable(err)
}
