package local

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/base/audit"
)

// enrolmentLife is how long a user may take to set up an authenticator app.
const enrolmentLife = 10 * time.Minute

// ChangePassword implements broker.SelfService.
func (b *Base) ChangePassword(ctx context.Context, user broker.User, password string, by broker.Caller) (broker.User, error) {
	if err := b.CheckPassword(user.Username, password); err != nil {
		return broker.User{}, err
	}
	hash, err := b.passwords.Hash(ctx, password, by.Address)
	if err != nil {
		return broker.User{}, err
	}
	err = b.writeBy(ctx, "change a password", by, func(c *change) error {
		if err := c.endLogins(ctx, user); err != nil {
			return err
		}
		if _, err := c.exec(ctx, `UPDATE users SET password = ?, must_change = FALSE WHERE id = ?`, hash, user.ID); err != nil {
			return err
		}
		c.log(audit.UserChanged, user.ID, "password")
		return c.unlockFactor(ctx, user.ID)
	})
	if err != nil {
		return broker.User{}, err
	}
	user.Version++
	if u, err := b.read(ctx, "u.id", user.ID); err == nil && u.lacksFactor() {
		return user, broker.ErrEnrolmentRequired
	}
	return user, nil
}

// BeginEnrolment implements broker.SelfService. The token is the encrypted secret, so that nothing
// is stored for enrolments that are never confirmed, and every node accepts it.
func (b *Base) BeginEnrolment(_ context.Context, user broker.User) (broker.Enrolment, error) {
	if b.factors == nil {
		return broker.Enrolment{}, unavailable("enrol a second factor", ErrNoSecret)
	}
	secret := make([]byte, otpSecret)
	_, _ = rand.Read(secret)
	e := enrolment{User: user.ID, Version: user.Version, Secret: secret, Expires: time.Now().Add(enrolmentLife).Unix()}
	return broker.Enrolment{
		Token:  b.factors.encryptEnrolment(e),
		Secret: b32().EncodeToString(secret),
		URL:    otpURL(b.issuer, user.Username, secret),
		Life:   enrolmentLife,
	}, nil
}

// ConfirmEnrolment implements broker.SelfService. An enrolment is valid for one version of its
// user. It raises the version, so that it can be used only once.
func (b *Base) ConfirmEnrolment(ctx context.Context, token, otp string, by broker.Caller) (broker.User, []string, error) {
	now := time.Now()
	e, err := b.factors.decryptEnrolment(token)
	if err != nil || now.Unix() >= e.Expires {
		return broker.User{}, nil, errors.Join(broker.ErrEnrolment, err)
	}
	step, ok := totpStep(e.Secret, plainOTP(otp), now)
	if !ok {
		return broker.User{}, nil, broker.ErrOTP
	}
	u, err := b.read(ctx, "u.id", e.User)
	if err != nil && !errors.Is(err, broker.ErrNotFound) {
		return broker.User{}, nil, err
	}
	if err != nil || u.ended() || u.Version != e.Version {
		return broker.User{}, nil, broker.ErrEnrolment
	}
	if u.bad != nil {
		return broker.User{}, nil, u.bad
	}
	if !broker.AddressAllowed(u.Networks, by.Address) {
		return u.User, nil, broker.ErrAddress
	}
	codes := newRecoveryCodes()
	err = b.writeBy(ctx, "confirm a second factor", by, func(c *change) error {
		if err := c.endLogins(ctx, u.User); err != nil {
			return err
		}
		n, err := c.exec(ctx, `DELETE FROM second_factors WHERE user_id = ?`, u.ID)
		if err != nil {
			return err
		}
		_, err = c.exec(ctx, `INSERT INTO second_factors (user_id, secret, last_step, created_at) VALUES (?, ?, ?, ?)`,
			u.ID, b.factors.encrypt(e.Secret, u.ID), step, now.Unix())
		if err != nil {
			return err
		}
		detail := "second factor enabled"
		if n > 0 {
			detail = "second factor replaced"
		}
		c.log(audit.UserChanged, u.ID, detail)
		return c.setRecoveryCodes(ctx, u.ID, codes)
	})
	if errors.Is(err, broker.ErrInvalidCredentials) { // another change was faster
		err = broker.ErrEnrolment
	}
	if err != nil {
		return broker.User{}, nil, err
	}
	u.User.Version++
	return u.User, codes, nil
}

// RenewRecoveryCodes implements broker.SelfService.
func (b *Base) RenewRecoveryCodes(ctx context.Context, user broker.User, by broker.Caller) ([]string, error) {
	codes := newRecoveryCodes()
	err := b.writeBy(ctx, "renew recovery codes", by, func(c *change) error {
		if err := c.isCurrent(ctx, user); err != nil {
			return err
		}
		found, err := c.one(ctx, `SELECT user_id FROM second_factors WHERE user_id = ?`, user.ID, new(string))
		if err == nil && !found {
			err = broker.ErrNoFactor
		}
		if err != nil {
			return err
		}
		c.quiet = true // rights do not change
		c.log(audit.UserChanged, user.ID, "recovery codes renewed")
		return c.setRecoveryCodes(ctx, user.ID, codes)
	})
	if err != nil {
		return nil, err
	}
	return codes, nil
}

// RemoveSecondFactor implements broker.SelfService.
func (b *Base) RemoveSecondFactor(ctx context.Context, user broker.User, by broker.Caller) error {
	return b.writeBy(ctx, "disable a second factor", by, func(c *change) error {
		if err := c.isCurrent(ctx, user); err != nil {
			return err
		}
		required, err := c.one(ctx, `SELECT g.name FROM user_groups m JOIN groups g ON g.name = m.group_name
			WHERE m.user_id = ? AND g.required_factor ORDER BY g.name LIMIT 1`, user.ID, new(string))
		if err == nil && required {
			err = broker.ErrFactor
		}
		if err != nil {
			return err
		}
		was, err := c.removeFactor(ctx, user.ID)
		if err == nil && !was {
			err = broker.ErrNoFactor
		}
		return err
	})
}

// writeBy is write for a change that a user makes.
func (b *Base) writeBy(ctx context.Context, what string, by broker.Caller, do func(c *change) error) error {
	return b.write(ctx, what, func(c *change) error {
		c.by = &by
		return do(c)
	})
}

// endLogins raises the version of a user who was authenticated, which ends all earlier logins. The
// error is broker.ErrInvalidCredentials if the user has changed since: the password may be another
// one now.
func (c *change) endLogins(ctx context.Context, user broker.User) error {
	n, err := c.exec(ctx, `UPDATE users SET version = version + 1 WHERE id = ? AND version = ? AND NOT disabled`, user.ID, user.Version)
	if err == nil && n == 0 {
		err = broker.ErrInvalidCredentials
	}
	return err
}

// isCurrent returns broker.ErrInvalidCredentials if a user has changed since it was authenticated.
func (c *change) isCurrent(ctx context.Context, user broker.User) error {
	var version int64
	var disabled bool
	found, err := c.one(ctx, `SELECT version, disabled FROM users WHERE id = ?`, user.ID, &version, &disabled)
	if err == nil && (!found || disabled || version != user.Version) {
		err = broker.ErrInvalidCredentials
	}
	return err
}

// setRecoveryCodes replaces the recovery codes of a user.
func (c *change) setRecoveryCodes(ctx context.Context, userID string, codes []string) error {
	if _, err := c.exec(ctx, `DELETE FROM recovery_codes WHERE user_id = ?`, userID); err != nil {
		return err
	}
	for _, code := range codes {
		if _, err := c.exec(ctx, `INSERT INTO recovery_codes (user_id, hash) VALUES (?, ?) ON CONFLICT DO NOTHING`, userID, hashRecovery(code)); err != nil {
			return err
		}
	}
	return nil
}

// enrolment is the content of an enrolment token.
type enrolment struct {
	User    string `json:"user"`
	Version int64  `json:"version"`
	Secret  []byte `json:"secret"`
	Expires int64  `json:"expires"` // Unix seconds
}

// enrolmentData separates enrolment tokens from stored secrets, which are bound to a user id. No id
// has a line end.
const enrolmentData = "enrolment\n"

// maxEnrolment bounds the text of an enrolment token. Those of this package have about 200 bytes.
const maxEnrolment = 1024

func (f *factors) encryptEnrolment(e enrolment) string {
	return base64.RawURLEncoding.EncodeToString(f.aead.Seal(nil, nil, []byte(toJSON(e)), []byte(enrolmentData)))
}

func (f *factors) decryptEnrolment(token string) (e enrolment, err error) {
	if f == nil {
		return e, ErrNoSecret
	}
	if len(token) > maxEnrolment || strings.ContainsAny(token, "\r\n") { // the decoder skips line ends
		return e, errors.New("not an enrolment")
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err == nil {
		b, err = f.aead.Open(nil, nil, b, []byte(enrolmentData))
	}
	if err == nil {
		err = json.Unmarshal(b, &e)
	}
	if err != nil {
		return enrolment{}, fmt.Errorf("not an enrolment: %w", err)
	}
	return e, nil
}
