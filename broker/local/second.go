package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/audit"
)

// ErrNoSecret is for a second factor where Config.Secret is not given.
var ErrNoSecret = errors.New("second factors need a secret that is kept apart from the database")

// SecondFactor is what a user needs to log in with one-time passwords. It is shown once: the database
// keeps the secret encrypted and the codes hashed.
type SecondFactor struct {
	Secret string   // base32, to type into an authenticator app
	URL    string   // otpauth://totp/..., the same for a picture
	Codes  []string // recovery codes, each in the place of a one-time password, once
}

// EnableSecondFactor lets a user log in with a one-time password alone, beside the password. Sessions of before
// stay. issuer names the gateway in the user's app. Errors: ErrNoSecret, ErrExists, broker.ErrNotFound, broker.ErrUnavailable.
func (b *Base) EnableSecondFactor(ctx context.Context, username, issuer string) (SecondFactor, error) {
	if b.factors == nil {
		return SecondFactor{}, ErrNoSecret
	}
	secret := make([]byte, otpSecret)
	_, _ = rand.Read(secret)
	f := SecondFactor{Secret: b32().EncodeToString(secret), URL: otpURL(issuer, username, secret)}
	for range recoveryCodes {
		f.Codes = append(f.Codes, newRecoveryCode())
	}
	err := b.write(ctx, "enable a second factor", func(c *change) error {
		id, err := c.userID(ctx, username)
		if err != nil {
			return err
		}
		n, err := c.exec(ctx, `INSERT INTO second_factors (user_id, secret, created_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
			id, b.factors.seal(secret, id), time.Now().Unix())
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("a second factor of %s %w", username, ErrExists)
		}
		for _, code := range f.Codes {
			if _, err := c.exec(ctx, `INSERT INTO recovery_codes (user_id, hash) VALUES (?, ?) ON CONFLICT DO NOTHING`, id, hashRecovery(code)); err != nil {
				return err
			}
		}
		c.log(audit.UserChanged, id, "second factor enabled")
		return nil
	})
	if err != nil {
		return SecondFactor{}, err
	}
	return f, nil
}

// DisableSecondFactor lets a user log in with the password alone again, and says whether there was a second factor.
// Errors: broker.ErrNotFound, broker.ErrUnavailable.
func (b *Base) DisableSecondFactor(ctx context.Context, username string) (was bool, err error) {
	err = b.write(ctx, "disable a second factor", func(c *change) error {
		id, err := c.userID(ctx, username)
		if err != nil {
			return err
		}
		if _, err := c.exec(ctx, `DELETE FROM recovery_codes WHERE user_id = ?`, id); err != nil {
			return err
		}
		n, err := c.exec(ctx, `DELETE FROM second_factors WHERE user_id = ?`, id)
		if was = n > 0; was {
			c.log(audit.UserChanged, id, "second factor disabled")
		}
		return err
	})
	return was && err == nil, err
}

// RecoveryCodes says how many of a user's recovery codes are left.
func (b *Base) RecoveryCodes(ctx context.Context, userID string) (n int, err error) {
	ctx, cancel := b.sql.limit(ctx, askLimit)
	defer cancel()
	err = b.reader.QueryRowContext(ctx, b.sql.rebind(`SELECT COUNT(*) FROM recovery_codes WHERE user_id = ?`), userID).Scan(&n)
	if err != nil {
		return 0, unavailable("count recovery codes", err)
	}
	return n, nil
}

// checkSecond checks the one-time password of a user whose password was right, and uses it up: of those who come with the same
// one at the same moment, one gets in. A secret that cannot be read lets nobody in.
func (b *Base) checkSecond(ctx context.Context, u *row, otp string) error {
	if otp == "" {
		return broker.ErrSecondFactor
	}
	if len(otp) > maxOTP {
		return broker.ErrInvalidCredentials
	}
	secret, err := b.factors.open(u.secret, u.ID)
	if err != nil {
		return fmt.Errorf("%w: second factor of user %s: %w", broker.ErrUnavailable, u.ID, err)
	}
	code, good := plainOTP(otp), false
	if len(code) == otpDigits {
		good, err = b.useOTP(ctx, u.ID, secret, code)
	} else {
		good, err = b.useRecovery(ctx, u.ID, code)
	}
	if err == nil && !good {
		err = broker.ErrInvalidCredentials
	}
	return err
}

// useOTP notes the step of a one-time password. No step at or before one that was used is good again.
func (b *Base) useOTP(ctx context.Context, userID string, secret []byte, code string) (good bool, err error) {
	step, ok := totpStep(secret, code, time.Now())
	if !ok {
		return false, nil
	}
	err = b.write(ctx, "use a one-time password", func(c *change) error {
		n, err := c.exec(ctx, `UPDATE second_factors SET last_step = ? WHERE user_id = ? AND last_step < ?`, step, userID, step)
		good = n > 0
		return err
	})
	return good && err == nil, err
}

// useRecovery takes a recovery code out of the database, if it is there.
func (b *Base) useRecovery(ctx context.Context, userID, code string) (good bool, err error) {
	if len(code) != recoveryBytes*8/5 {
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
