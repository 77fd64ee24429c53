package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ruedahq/rueda/internal/auth"
)

// Keys are the settings of the keys that sign access tokens.
type Keys struct {
	Algorithm string        // of new keys: ES256, EdDSA or RS256; "": ES256
	Rotate    time.Duration // how long a key signs; 0: 30 days; under 0: until rueda keys rotate
	AccessTTL time.Duration // life of access tokens, which keys outlive; 0: 24 h. A gateway takes its own

	// EncryptionKeyFile and EncryptionKeyEnv name a file of mode 0600, or an environment variable, with the key
	// that the keys are encrypted with where they are kept: 32 bytes as hexadecimal digits or base64. Both
	// "": they are not encrypted.
	EncryptionKeyFile string
	EncryptionKeyEnv  string
}

// NeedsEncryptionKey says whether an error is that keys are encrypted, and Keys names no key for them.
func NeedsEncryptionKey(err error) bool { return errors.Is(err, auth.ErrNoEncryptionKey) }

// encryption gives the key anew each time it is asked, so that a file can be replaced under a running
// gateway; nil where there is none.
func (k *Keys) encryption() func() (auth.EncryptionKey, error) {
	switch file, env := k.EncryptionKeyFile, k.EncryptionKeyEnv; {
	case file != "":
		return func() (auth.EncryptionKey, error) { return auth.ReadEncryptionKey(file) }
	case env != "":
		return func() (auth.EncryptionKey, error) {
			key, err := auth.ParseEncryptionKey(os.Getenv(env))
			if err != nil {
				return key, fmt.Errorf("environment variable %s: %w", env, err)
			}
			return key, nil
		}
	}
	return nil
}

// Check says what is wrong with the settings, and whether the encryption key can be had.
func (k *Keys) Check() error {
	if get := k.encryption(); get != nil {
		_, err := get()
		return err
	}
	return nil
}

// open reads the keys of a store, or makes them. The rest of cfg is for who lets them run.
func (k *Keys) open(ctx context.Context, store auth.KeyStore, cfg auth.KeySetConfig) (*auth.KeySet, error) {
	cfg.Algorithm, cfg.Rotate, cfg.Encryption = k.Algorithm, k.Rotate, k.encryption()
	cfg.AccessTTL = cmp.Or(cfg.AccessTTL, k.AccessTTL)
	keys, err := auth.OpenKeySet(ctx, store, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the keys: %w", err)
	}
	return keys, nil
}

// MissingKeysError is the error of OpenData where there are no keys and none may be made.
type MissingKeysError struct {
	Place string // where they were looked for
	Used  bool   // the database was used with keys before: these are lost
}

func (e *MissingKeysError) Error() string {
	if e.Used {
		return e.Place + " is missing, and the database was used with one"
	}
	return e.Place + " is missing, for the database was never used"
}

// openKeys gives the gateway its keys. What becomes of them is told to the audit log, and one that is revoked
// takes its sockets with it.
func (g *Gateway) openKeys(ctx context.Context, data *Data) (err error) {
	g.keys, err = data.keys.open(ctx, data.keyStore, auth.KeySetConfig{
		AccessTTL: g.cfg.Auth.AccessTTL,
		MustExist: true, // OpenData has made them where that was right
		OnRevoke:  g.registry.RevokeKey,
		Audit:     data.store.Append,
		Logger:    g.log,
	})
	return err
}

// Key is what an operator may know of a key.
type Key struct {
	ID        string
	Algorithm string // "" of one that was revoked
	State     string // published, signing, verify_only, revoked
	Created   time.Time
	Since     time.Time // in this state
	Until     time.Time // when the clock ends this state; zero: it does not
}

// KeyChange is a step in the life of a key.
type KeyChange struct {
	ID        string
	Algorithm string
	State     string    // from now on: published, signing, verify_only, deleted, revoked
	Due       time.Time // of one published: when it is to sign
}

// KeyRotation is what is wanted of the keys. The zero value publishes the next key, or takes the one that
// is published, and has it sign as soon as everybody can know it.
type KeyRotation struct {
	Algorithm string // of the next key; "": that of the settings
	Now       bool   // it signs at once
	Revoke    string // id of a key whose tokens are over at once; "": none
}

// Errors of RotateKeys.
var (
	ErrNoSuchKey    = errors.New("there is no such key")
	ErrSigningKey   = errors.New("the key is the one that signs")
	ErrTooManyKeys  = errors.New("there are too many keys")
	ErrKeyAlgorithm = errors.New("no algorithm of a key")
)

// keyError is an error of the keys that is one of those above.
type keyError struct {
	error
	is error
}

func (e *keyError) Is(target error) bool { return target == e.is }
func (e *keyError) Unwrap() error        { return e.error }

func explainKey(err error) error {
	for _, e := range []struct{ of, is error }{
		{auth.ErrNoSuchKey, ErrNoSuchKey}, {auth.ErrSigningKey, ErrSigningKey},
		{auth.ErrTooManyKeys, ErrTooManyKeys}, {auth.ErrKeyAlgorithm, ErrKeyAlgorithm},
	} {
		if errors.Is(err, e.of) {
			return &keyError{err, e.is}
		}
	}
	return err
}

// byHand opens the keys for an operator.
func (d *Data) byHand(ctx context.Context) (*auth.KeySet, error) {
	return d.keys.open(ctx, d.keyStore, auth.KeySetConfig{Actor: d.actor, Audit: d.store.Append, MustExist: true})
}

// Keys are the keys, the newest first, and then those that were revoked lately.
func (d *Data) Keys(ctx context.Context) ([]Key, error) {
	keys, err := d.byHand(ctx)
	if err != nil {
		return nil, err
	}
	var list []Key
	for _, k := range keys.Keys() {
		list = append(list, Key{ID: k.ID, Algorithm: k.Algorithm, State: string(k.State), Created: k.Created, Since: k.Since, Until: k.Until})
	}
	return list, nil
}

// RotateKeys changes the keys, also under running gateways, which take it up within a second on one machine and
// within five over the network. It says what became of which key.
func (d *Data) RotateKeys(ctx context.Context, r KeyRotation) ([]KeyChange, error) {
	keys, err := d.byHand(ctx)
	if err != nil {
		return nil, err
	}
	changes, err := keys.Rotate(ctx, auth.KeyRotation{Algorithm: r.Algorithm, Now: r.Now, Revoke: r.Revoke})
	if err != nil {
		return nil, explainKey(err)
	}
	var list []KeyChange
	for _, c := range changes {
		list = append(list, KeyChange{ID: c.ID, Algorithm: c.Algorithm, State: string(c.State), Due: c.Due})
	}
	return list, nil
}

// ResealKeys encrypts the keys with the encryption key of another file from now on. Gateways that run keep
// the keys they have, and cannot change them until their settings name that file's key.
func (d *Data) ResealKeys(ctx context.Context, file string) error {
	with, err := auth.ReadEncryptionKey(file)
	if err != nil {
		return err
	}
	keys, err := d.byHand(ctx)
	if err != nil {
		return err
	}
	return keys.Reseal(ctx, with)
}

// MakeEncryptionKey writes a fresh encryption key into a new file of mode 0600.
func MakeEncryptionKey(file string) error { return auth.MakeEncryptionKey(file) }
