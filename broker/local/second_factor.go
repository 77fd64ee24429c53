package local

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/base/audit"
)

// ErrNoSecret means that Config.Secret is missing, which second factors need.
var ErrNoSecret = errors.New("second factors need a secret that is kept apart from the database")

// SecondFactor is a new second factor. It is shown only once: the database stores the secret
// encrypted and the codes hashed.
type SecondFactor struct {
	Secret string   // base32, for an authenticator app
	URL    string   // otpauth://totp/..., for a QR code
	Codes  []string // recovery codes, each usable once instead of a one-time password
}

// EnableSecondFactor requires one-time passwords from a user, and ends the user's logins, which
// were made without one. issuer is the name of the gateway in the user's app; "": Config.OTPIssuer.
// Errors: ErrNoSecret, ErrExists, broker.ErrNotFound, broker.ErrUnavailable.
func (b *Base) EnableSecondFactor(ctx context.Context, username, issuer string) (SecondFactor, error) {
	if b.factors == nil {
		return SecondFactor{}, ErrNoSecret
	}
	issuer = cmp.Or(issuer, b.issuer)
	secret := make([]byte, otpSecret)
	_, _ = rand.Read(secret)
	f := SecondFactor{Secret: b32().EncodeToString(secret), URL: otpURL(issuer, username, secret), Codes: newRecoveryCodes()}
	err := b.write(ctx, "enable a second factor", func(c *change) error {
		id, err := c.userID(ctx, username)
		if err != nil {
			return err
		}
		n, err := c.exec(ctx, `INSERT INTO second_factors (user_id, secret, created_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
			id, b.factors.encrypt(secret, id), time.Now().Unix())
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("a second factor of %s %w", username, ErrExists)
		}
		if err := c.setRecoveryCodes(ctx, id, f.Codes); err != nil {
			return err
		}
		if _, err := c.exec(ctx, `UPDATE users SET version = version + 1 WHERE id = ?`, id); err != nil {
			return err
		}
		c.log(audit.UserChanged, id, "second factor enabled")
		return nil
	})
	if err != nil {
		return SecondFactor{}, err
	}
	return f, nil
}

// DisableSecondFactor removes a user's second factor and reports whether there was one. Errors:
// broker.ErrNotFound, broker.ErrUnavailable.
func (b *Base) DisableSecondFactor(ctx context.Context, username string) (was bool, err error) {
	err = b.write(ctx, "disable a second factor", func(c *change) error {
		id, err := c.userID(ctx, username)
		if err != nil {
			return err
		}
		was, err = c.removeFactor(ctx, id)
		return err
	})
	return was && err == nil, err
}

func (c *change) removeFactor(ctx context.Context, userID string) (was bool, err error) {
	if err := c.setRecoveryCodes(ctx, userID, nil); err != nil {
		return false, err
	}
	n, err := c.exec(ctx, `DELETE FROM second_factors WHERE user_id = ?`, userID)
	if n > 0 {
		c.log(audit.UserChanged, userID, "second factor disabled")
	}
	return n > 0, err
}

// RecoveryCodes returns the number of a user's unused recovery codes.
func (b *Base) RecoveryCodes(ctx context.Context, userID string) (n int, err error) {
	ctx, cancel := b.sql.limit(ctx, askLimit)
	defer cancel()
	err = b.reader.QueryRowContext(ctx, b.sql.rebind(`SELECT COUNT(*) FROM recovery_codes WHERE user_id = ?`), userID).Scan(&n)
	if err != nil {
		return 0, unavailable("count recovery codes", err)
	}
	return n, nil
}

// checkSecond checks and uses the one-time password of a user whose password was right. Of
// concurrent logins with the same one, only one succeeds. If the secret cannot be decrypted, the
// login fails.
func (b *Base) checkSecond(ctx context.Context, u *row, otp string) error {
	if otp == "" {
		return broker.ErrSecondFactor
	}
	if len(otp) > maxOTP {
		return broker.ErrWrongOTP
	}
	secret, err := b.factors.decrypt(u.secret, u.ID)
	if err != nil {
		return fmt.Errorf("%w: second factor of user %s: %w", broker.ErrUnavailable, u.ID, err)
	}
	code, good := plainOTP(otp), false
	switch {
	case len(code) != otpDigits:
		good, err = b.useRecovery(ctx, u.ID, code)
	case u.FactorLocked:
		return broker.ErrFactorLocked
	default:
		good, err = b.useOTP(ctx, u.ID, secret, code)
	}
	if err == nil && !good {
		err = broker.ErrWrongOTP
	}
	return err
}

// maxWrongOTPs is the number of wrong one-time passwords in a row, each with the right password,
// after which none is checked until there is a new password. Somebody may know the password and
// guess. Recovery codes are still checked: they are too long to be guessed.
const maxWrongOTPs = 10

// countWrongOTP counts a wrong one-time password that came with the right password.
func (b *Base) countWrongOTP(ctx context.Context, userID string) error {
	return b.write(ctx, "count a wrong one-time password", func(c *change) error {
		c.quiet = true // rights do not change
		var wrong int
		found, err := c.one(ctx, `SELECT wrong FROM second_factors WHERE user_id = ?`, userID, &wrong)
		if err != nil || !found {
			return err
		}
		if wrong+1 == maxWrongOTPs {
			c.log(audit.UserChanged, userID, "one-time passwords locked until there is a new password")
		}
		_, err = c.exec(ctx, `UPDATE second_factors SET wrong = ? WHERE user_id = ?`, wrong+1, userID)
		return err
	})
}

// unlockFactor forgets wrong one-time passwords, because the password is a new one.
func (c *change) unlockFactor(ctx context.Context, userID string) error {
	_, err := c.exec(ctx, `UPDATE second_factors SET wrong = 0 WHERE user_id = ? AND wrong > 0`, userID)
	return err
}

// useOTP stores the step of a one-time password. Steps up to a used one are invalid, but do not
// count as wrong: nobody guesses a code that was right.
func (b *Base) useOTP(ctx context.Context, userID string, secret []byte, code string) (good bool, err error) {
	step, ok := totpStep(secret, code, time.Now())
	if !ok {
		return false, b.countWrongOTP(ctx, userID)
	}
	err = b.write(ctx, "use a one-time password", func(c *change) error {
		n, err := c.exec(ctx, `UPDATE second_factors SET last_step = ?, wrong = 0 WHERE user_id = ? AND last_step < ? AND wrong < ?`,
			step, userID, step, maxWrongOTPs)
		good = n > 0
		return err
	})
	return good && err == nil, err
}

// useRecovery deletes a recovery code, if it exists.
func (b *Base) useRecovery(ctx context.Context, userID, code string) (good bool, err error) {
	if len(code) != recoveryBytes*8/5 && len(code) != recoveryBytesOld*8/5 {
		return false, nil
	}
	err = b.write(ctx, "use a recovery code", func(c *change) error {
		c.quiet = true
		n, err := c.exec(ctx, `DELETE FROM recovery_codes WHERE user_id = ? AND hash = ?`, userID, hashRecovery(code))
		if good = n > 0; good {
			c.log(audit.UserChanged, userID, "recovery code used")
		}
		return err
	})
	return good && err == nil, err
}
