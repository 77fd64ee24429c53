package keyset

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// State is a step in the life of a key. States follow each other in the order below.
type State string

// States of a key. A deleted key is in no set.
const (
	Published  State = "published"   // clients may know the key; it does not sign yet
	Signing    State = "signing"     // exactly one
	VerifyOnly State = "verify_only" // tokens that it signed may still be valid
	Deleted    State = "deleted"
	Revoked    State = "revoked" // deleted early; its tokens are invalid
)

const (
	// ClockLeeway is allowed for the times of tokens that another node of the installation has
	// signed.
	ClockLeeway = 30 * time.Second
	// JWKSMaxAge is how long others may use the public keys that they have read.
	JWKSMaxAge = 5 * time.Minute
	// publishedFor is the shortest time between a key's publication and its first signature. Within
	// it, clients that read the public keys through a cache get the new key.
	publishedFor = 2 * JWKSMaxAge
	// verifyMargin is how long a key is kept after its last token has expired. It allows for
	// differences between clocks, and for nodes that learn of a change late and sign with the key a
	// little longer.
	verifyMargin = ClockLeeway + JWKSMaxAge
	// maxLead is the longest time between publication and the first signature.
	maxLead = 24 * time.Hour
	// clockBack is how far ahead of the clock a stored time may be. If it is further ahead, the
	// clock was set back.
	clockBack = 5 * time.Minute
	// maxKeys bounds a set, and so the answer of the JWKS route.
	maxKeys = 256
	// maxRevoked bounds the number of remembered revoked keys. The oldest are forgotten first.
	maxRevoked = 1024
)

// signingKey is a key with its state.
type signingKey struct {
	pair
	state   State
	created time.Time
	since   time.Time // in this state
	due     time.Time // of a published key: when it will sign
}

// revokedKey is the record of a revoked key.
type revokedKey struct {
	id string
	at time.Time
}

type deriver struct {
	id      string
	created time.Time
	secret  []byte
}

// document has all secrets of the server. The document of a ring is immutable.
type document struct {
	keys     []signingKey // the newest first
	revoked  []revokedKey // the newest first
	derivers []deriver    // the first serves new families
	audit    []byte
	counter  int64  // of saves: an older document has a lower one
	head     string // of the audit log, as SEQ:HASH; "": none was stored
}

func (d *document) clone() *document {
	c := *d
	c.keys, c.revoked = slices.Clone(d.keys), slices.Clone(d.revoked)
	return &c
}

// find returns the index of a key, or -1.
func (d *document) find(id string) int {
	return slices.IndexFunc(d.keys, func(k signingKey) bool { return k.id == id })
}

// in returns the index of the first key in a state, or -1.
func (d *document) in(state State) int {
	return slices.IndexFunc(d.keys, func(k signingKey) bool { return k.state == state })
}

// Change is a step in the life of a key.
type Change struct {
	ID        string
	Algorithm string
	State     State     // the new state
	Due       time.Time // of a published key: when it will sign
}

// keyRules has the durations of the states.
type keyRules struct {
	rotate    time.Duration // how long a key signs; 0: until an operator rotates it
	lifetime  time.Duration // of tokens
	algorithm string        // of new keys
}

// lead returns how long before it signs a key is published.
func (r *keyRules) lead() time.Duration { return max(publishedFor, min(maxLead, r.rotate/2)) }

// end returns when a key that only verifies is deleted.
func (r *keyRules) end(k *signingKey) time.Time { return k.since.Add(r.lifetime + verifyMargin) }

// edit is a change of a document. Its make function makes new keys.
type edit struct {
	*document
	now     time.Time
	make    func(algorithm string) (pair, error)
	changes []Change
	quiet   bool   // something changed that is not a step of a key
	actor   string // of the changes; "": that of the set's configuration
}

func (e *edit) changed() bool { return len(e.changes) > 0 || e.quiet }

func (e *edit) note(k *signingKey, state State) {
	e.changes = append(e.changes, Change{ID: k.id, Algorithm: k.algorithm, State: state, Due: k.due})
}

// advance applies the steps that are due. It reverts none if the clock is set back.
func (e *edit) advance(r *keyRules) error {
	e.correctClock()
	e.deleteOld(r)
	if i := e.in(Published); i >= 0 && !e.now.Before(e.keys[i].due) && e.now.Sub(e.keys[i].since) >= publishedFor {
		e.sign(i)
	}
	signing := e.keys[e.in(Signing)]
	turn := signing.since.Add(r.rotate)
	if r.rotate <= 0 || e.in(Published) >= 0 || e.now.Before(turn.Add(-r.lead())) || len(e.keys) >= maxKeys {
		return nil
	}
	due := e.now.Add(publishedFor)
	if turn.After(due) {
		due = turn
	}
	_, err := e.publish(r.algorithm, due)
	return err
}

// correctClock replaces times in the future by now: the clock was wrong then, or is wrong now.
// Otherwise a key would stay until that time.
func (e *edit) correctClock() {
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

// deleteOld deletes the keys that no valid token can need, and forgets revoked keys in the same
// way.
func (e *edit) deleteOld(r *keyRules) {
	e.keys = slices.DeleteFunc(e.keys, func(k signingKey) bool {
		over := k.state == VerifyOnly && !e.now.Before(r.end(&k))
		if over {
			e.note(&k, Deleted)
		}
		return over
	})
	n := len(e.revoked)
	e.revoked = slices.DeleteFunc(e.revoked, func(k revokedKey) bool { return e.now.Sub(k.at) > r.lifetime+verifyMargin })
	e.quiet = e.quiet || len(e.revoked) != n
}

// publish adds a key that signs from due on, and returns its index.
func (e *edit) publish(algorithm string, due time.Time) (int, error) {
	p, err := e.make(algorithm)
	if err != nil {
		return 0, err
	}
	k := signingKey{pair: p, state: Published, created: e.now, since: e.now, due: due}
	e.keys = slices.Insert(e.keys, 0, k)
	e.note(&k, Published)
	return 0, nil
}

// sign makes the key at i sign. The previous one only verifies.
func (e *edit) sign(i int) {
	if before := e.in(Signing); before >= 0 {
		k := &e.keys[before]
		k.state, k.since = VerifyOnly, e.now
		e.note(k, VerifyOnly)
	}
	k := &e.keys[i]
	k.state, k.since, k.due = Signing, e.now, time.Time{}
	e.note(k, Signing)
}

// remove removes the key at i. The name of a revoked key is kept.
func (e *edit) remove(i int, state State) {
	e.note(&e.keys[i], state)
	if state == Revoked {
		e.revoked = slices.Insert(e.revoked, 0, revokedKey{id: e.keys[i].id, at: e.now})
		e.revoked = e.revoked[:min(len(e.revoked), maxRevoked)]
	}
	e.keys = slices.Delete(e.keys, i, i+1)
}

// Rotation is a request of an operator. The zero value publishes the next key, or uses the
// published one. It signs as soon as all readers of the public keys can have it.
type Rotation struct {
	Algorithm string // of the next key; "": that of the set's configuration
	Now       bool   // the next key signs at once, even if clients may not know it yet
	Revoke    string // a key whose tokens become invalid at once; "": none
	Actor     string // who requests it, for the audit log; "": that of the set's configuration
}

// Errors of a rotation.
var (
	ErrNoSuchKey   = errors.New("there is no such key")
	ErrSigningKey  = errors.New("this key signs: without a replacement nobody could log in")
	ErrTooManyKeys = errors.New("there are too many keys: some must be deleted first")
)

// rotate applies a request of an operator.
func (e *edit) rotate(o Rotation, r *keyRules) error {
	if o.Revoke != "" {
		if i := e.find(o.Revoke); i < 0 {
			return fmt.Errorf("%w: %.64q", ErrNoSuchKey, o.Revoke)
		} else if e.keys[i].state == Signing && !o.Now {
			return ErrSigningKey
		} else if e.keys[i].state != Signing {
			e.remove(i, Revoked)
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
		e.remove(i, Revoked)
	}
	return nil
}

// successor returns the index of the next key. It publishes one if none fits.
func (e *edit) successor(o Rotation, r *keyRules) (int, error) {
	i := e.in(Published)
	if i >= 0 && o.Algorithm != "" && o.Algorithm != e.keys[i].algorithm {
		e.remove(i, Deleted) // it has not signed anything
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
