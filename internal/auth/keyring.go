package auth

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// KeyState is where a key stands in its life. It only ever goes forward.
type KeyState string

// States of a key. One that is deleted is in no set any more.
const (
	KeyPublished  KeyState = "published"   // others may learn it; it does not sign yet
	KeySigning    KeyState = "signing"     // exactly one
	KeyVerifyOnly KeyState = "verify_only" // tokens that it signed may still live
	KeyDeleted    KeyState = "deleted"
	KeyRevoked    KeyState = "revoked" // deleted before its time: its tokens are over
)

const (
	// JWKSMaxAge is how long others may go by the public keys that they have read.
	JWKSMaxAge = 5 * time.Minute
	// publishedFor is the least time between a key's publication and its first signature: whoever
	// reads the public keys in time has it by then, even where a cache stands between.
	publishedFor = 2 * JWKSMaxAge
	// verifyMargin is how much longer than its tokens a key stays: for clocks that differ, and
	// for nodes that learn of a change late and sign with it a while longer.
	verifyMargin = clockLeeway + JWKSMaxAge
	// maxLead is how long before its turn the clock publishes a key, where rotation is slow enough.
	maxLead = 24 * time.Hour
	// clockBack is how far ahead of now a time of the past may lie; beyond that the clock has been set back.
	clockBack = 5 * time.Minute
	// maxKeys bounds a set, and so the answer of the JWKS route.
	maxKeys = 256
	// maxRevoked bounds the memory of revoked keys, of which the oldest go first.
	maxRevoked = 1024
)

// signingKey is a key and where it stands.
type signingKey struct {
	pair
	state   KeyState
	created time.Time
	since   time.Time // in this state
	due     time.Time // of a published one: when it is to sign
}

// revokedKey is the memory of a key that was taken out before its time.
type revokedKey struct {
	id string
	at time.Time
}

type deriver struct {
	id      string
	created time.Time
	secret  []byte
}

// document is all secrets of the server, as they are kept. One that a ring was made
// of does not change.
type document struct {
	keys     []signingKey // the newest first
	revoked  []revokedKey // the newest first
	derivers []deriver    // the first serves new families
	audit    []byte
}

func (d *document) clone() *document {
	c := *d
	c.keys, c.revoked = slices.Clone(d.keys), slices.Clone(d.revoked)
	return &c
}

// find is the place of a key, -1 none.
func (d *document) find(id string) int {
	return slices.IndexFunc(d.keys, func(k signingKey) bool { return k.id == id })
}

// in is the place of the first key in a state, -1 none.
func (d *document) in(state KeyState) int {
	return slices.IndexFunc(d.keys, func(k signingKey) bool { return k.state == state })
}

// KeyChange is a step in the life of a key.
type KeyChange struct {
	ID        string
	Algorithm string
	State     KeyState  // from now on
	Due       time.Time // of one published: when it is to sign
}

// keyRules say when keys take which step.
type keyRules struct {
	rotate    time.Duration // how long a key signs; 0: until told otherwise
	lifetime  time.Duration // of tokens
	algorithm string        // of new keys
}

// lead is how long before its turn a key is published by the clock.
func (r *keyRules) lead() time.Duration { return max(publishedFor, min(maxLead, r.rotate/2)) }

// end is when a key that verifies only has done so for long enough.
func (r *keyRules) end(k *signingKey) time.Time { return k.since.Add(r.lifetime + verifyMargin) }

// edit is a change of a document on its way. make gives new keys.
type edit struct {
	*document
	now     time.Time
	make    func(algorithm string) (pair, error)
	changes []KeyChange
	quiet   bool // something changed that is no step of a key
}

func (e *edit) changed() bool { return len(e.changes) > 0 || e.quiet }

func (e *edit) tell(k *signingKey, state KeyState) {
	e.changes = append(e.changes, KeyChange{ID: k.id, Algorithm: k.algorithm, State: state, Due: k.due})
}

// advance does what the clock wants done by now. Nothing goes back when the clock does.
func (e *edit) advance(r *keyRules) error {
	e.settleClock()
	e.sweep(r)
	if i := e.in(KeyPublished); i >= 0 && !e.now.Before(e.keys[i].due) && e.now.Sub(e.keys[i].since) >= publishedFor {
		e.sign(i)
	}
	signing := e.keys[e.in(KeySigning)]
	turn := signing.since.Add(r.rotate)
	if r.rotate <= 0 || e.in(KeyPublished) >= 0 || e.now.Before(turn.Add(-r.lead())) || len(e.keys) >= maxKeys {
		return nil
	}
	due := e.now.Add(publishedFor)
	if turn.After(due) {
		due = turn
	}
	_, err := e.publish(r.algorithm, due)
	return err
}

// settleClock takes what lies in the future for what has just happened: the clock was
// wrong when it was noted, or is now. Otherwise a key would stay until that time comes.
func (e *edit) settleClock() {
	for i := range e.keys {
		k := &e.keys[i]
		if k.since.Sub(e.now) > clockBack {
			k.due = k.due.Add(e.now.Sub(k.since))
			k.since, e.quiet = e.now, true
		}
	}
	for i := range e.revoked {
		if e.revoked[i].at.Sub(e.now) > clockBack {
			e.revoked[i].at, e.quiet = e.now, true
		}
	}
}

// sweep deletes the keys of which no token can be alive, and forgets revoked ones likewise.
func (e *edit) sweep(r *keyRules) {
	e.keys = slices.DeleteFunc(e.keys, func(k signingKey) bool {
		over := k.state == KeyVerifyOnly && !e.now.Before(r.end(&k))
		if over {
			e.tell(&k, KeyDeleted)
		}
		return over
	})
	n := len(e.revoked)
	e.revoked = slices.DeleteFunc(e.revoked, func(k revokedKey) bool { return e.now.Sub(k.at) > r.lifetime+verifyMargin })
	e.quiet = e.quiet || len(e.revoked) != n
}

// publish adds a key that is to sign from due on, and returns its place.
func (e *edit) publish(algorithm string, due time.Time) (int, error) {
	p, err := e.make(algorithm)
	if err != nil {
		return 0, err
	}
	k := signingKey{pair: p, state: KeyPublished, created: e.now, since: e.now, due: due}
	e.keys = slices.Insert(e.keys, 0, k)
	e.tell(&k, KeyPublished)
	return 0, nil
}

// sign makes the key at i the one that signs; the one before verifies only.
func (e *edit) sign(i int) {
	if before := e.in(KeySigning); before >= 0 {
		k := &e.keys[before]
		k.state, k.since = KeyVerifyOnly, e.now
		e.tell(k, KeyVerifyOnly)
	}
	k := &e.keys[i]
	k.state, k.since, k.due = KeySigning, e.now, time.Time{}
	e.tell(k, KeySigning)
}

// remove takes out the key at i. Of one that was revoked the name is kept.
func (e *edit) remove(i int, state KeyState) {
	e.tell(&e.keys[i], state)
	if state == KeyRevoked {
		e.revoked = slices.Insert(e.revoked, 0, revokedKey{id: e.keys[i].id, at: e.now})
		e.revoked = e.revoked[:min(len(e.revoked), maxRevoked)]
	}
	e.keys = slices.Delete(e.keys, i, i+1)
}

// KeyRotation is what an operator wants of the keys. The zero value publishes the next
// key, or takes the one that is published, and has it sign as soon as everybody can know it.
type KeyRotation struct {
	Algorithm string // of the next key; "": that of the set's configuration
	Now       bool   // the next key signs at once, whether or not others know it
	Revoke    string // a key whose tokens are over at once; "": none
}

// Errors of a rotation.
var (
	ErrNoSuchKey   = errors.New("there is no such key")
	ErrSigningKey  = errors.New("the key is the one that signs: without another in its place nobody could log in")
	ErrTooManyKeys = errors.New("there are too many keys: some must be deleted first")
)

// rotate does what an operator wants.
func (e *edit) rotate(o KeyRotation, r *keyRules) error {
	if o.Revoke != "" {
		if i := e.find(o.Revoke); i < 0 {
			return fmt.Errorf("%w: %.64q", ErrNoSuchKey, o.Revoke)
		} else if e.keys[i].state == KeySigning && !o.Now {
			return ErrSigningKey
		} else if e.keys[i].state != KeySigning {
			e.remove(i, KeyRevoked)
		}
	}
	next, err := e.successor(o, r)
	if err != nil {
		return err
	}
	if o.Now {
		e.sign(next)
	}
	if i := e.find(o.Revoke); i >= 0 { // it signed until now
		e.remove(i, KeyRevoked)
	}
	return nil
}

// successor is the place of the next key, which is published now if none fits. It is to sign as soon as it may.
func (e *edit) successor(o KeyRotation, r *keyRules) (int, error) {
	i := e.in(KeyPublished)
	if i >= 0 && o.Algorithm != "" && o.Algorithm != e.keys[i].algorithm {
		e.remove(i, KeyDeleted) // it has signed nothing
		i = -1
	}
	if i < 0 {
		if len(e.keys) >= maxKeys {
			return 0, ErrTooManyKeys
		}
		algorithm := o.Algorithm
		if algorithm == "" {
			algorithm = r.algorithm
		}
		return e.publish(algorithm, e.now.Add(publishedFor))
	}
	due := e.keys[i].since.Add(publishedFor)
	if due.Before(e.now) {
		due = e.now
	}
	if k := &e.keys[i]; due.Before(k.due) {
		k.due, e.quiet = due, true
	}
	return i, nil
}
