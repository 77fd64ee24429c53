package keyset

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// keyDocument is the stored form of a document, in JSON.
type keyDocument struct {
	Version int           `json:"version"`
	Counter int64         `json:"counter,omitempty"`
	Keys    []keptKey     `json:"keys"`
	Revoked []keptRevoked `json:"revoked,omitempty"`
	Refresh []keptSecret  `json:"refresh"`
	Audit   []byte        `json:"audit,omitempty"`
	Head    string        `json:"audit_head,omitempty"`
}

type keptKey struct {
	ID        string     `json:"kid"`
	Algorithm string     `json:"alg"`
	State     State      `json:"state,omitempty"`
	Created   time.Time  `json:"created"`
	Since     time.Time  `json:"since,omitzero"`
	Due       *time.Time `json:"due,omitempty"`
	Private   []byte     `json:"private"`
}

type keptRevoked struct {
	ID string    `json:"kid"`
	At time.Time `json:"at"`
}

type keptSecret struct {
	ID      string    `json:"id"`
	Created time.Time `json:"created"`
	Secret  []byte    `json:"secret"`
}

const (
	documentVersion = 3
	// secondVersion had no counter.
	secondVersion = 2
	// firstVersion had no states: its first key signs, the others verify.
	firstVersion   = 1
	maxDocument    = 2 << 20
	deriverLength  = 32
	auditKeyLength = 32
	maxDerivers    = 64
)

// newDocument returns new secrets. The key signs at once: no other key was published.
func newDocument(algorithm string, now time.Time) (*document, error) {
	p, err := newPair(algorithm)
	if err != nil {
		return nil, err
	}
	return &document{
		keys:     []signingKey{{pair: p, state: Signing, created: now, since: now}},
		derivers: []deriver{{id: RandomID(6), created: now, secret: randomBytes(deriverLength)}},
		audit:    randomBytes(auditKeyLength),
	}, nil
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails: it ends the program instead
	return b
}

// parseDocument reads a document that is not encrypted. It adds what version 1 lacks; complete is
// then false: the document must be saved before its audit key is used.
func parseDocument(data []byte) (d *document, complete bool, err error) {
	var head struct{ Version int }
	if err := json.Unmarshal(data, &head); err == nil && head.Version > documentVersion {
		return nil, false, newerVersion(head.Version) // it may have members that are unknown here
	}
	var kept keyDocument
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&kept); err != nil {
		return nil, false, fmt.Errorf("damaged: %w", withoutValue(err))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, false, errors.New("damaged: more than one JSON value")
	}
	if kept.Version < firstVersion {
		return nil, false, fmt.Errorf("damaged: version %d", kept.Version)
	}
	if len(kept.Keys) == 0 || len(kept.Refresh) == 0 {
		return nil, false, errors.New("damaged: it needs at least one key and one refresh secret")
	}
	if len(kept.Keys) > maxKeys || len(kept.Revoked) > maxRevoked || len(kept.Refresh) > maxDerivers {
		return nil, false, errors.New("damaged: too many keys")
	}
	if kept.Version == firstVersion {
		kept.upgrade()
	}
	if len(kept.Audit) != auditKeyLength {
		return nil, false, fmt.Errorf("damaged: the audit key does not have %d bytes", auditKeyLength)
	}
	if kept.Counter < 0 {
		return nil, false, errors.New("damaged: the counter is negative")
	}
	d = &document{audit: kept.Audit, counter: kept.Counter, head: kept.Head}
	if err := kept.readKeys(d); err != nil {
		return nil, false, err
	}
	return d, kept.Version >= secondVersion, kept.readSecrets(d)
}

// newerVersion returns the error for a document of a newer program.
func newerVersion(version int) error {
	return fmt.Errorf("version %d is newer than version %d of this program: run a newer program", version, documentVersion)
}

// withoutValue removes the value from an error of a decoder: it may be a part of a key.
func withoutValue(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Errorf("%q has the wrong type", wrong.Field)
	}
	if parse := (*time.ParseError)(nil); errors.As(err, &parse) {
		return errors.New("a time is invalid")
	}
	return err
}

// upgrade converts a document of version 1.
func (kept *keyDocument) upgrade() {
	for i := range kept.Keys {
		k := &kept.Keys[i]
		k.State, k.Since = VerifyOnly, time.Now().UTC().Truncate(time.Second)
		if i == 0 {
			k.State, k.Since = Signing, k.Created
		}
	}
	if kept.Audit == nil {
		kept.Audit = randomBytes(auditKeyLength)
	}
}

func (kept *keyDocument) readKeys(d *document) error {
	for i, k := range kept.Keys {
		key, err := k.key()
		if err != nil {
			return fmt.Errorf("key %d: %w", i+1, err)
		}
		if d.find(key.id) >= 0 {
			return fmt.Errorf("key %d: damaged: duplicate", i+1)
		}
		for _, state := range []State{Signing, Published} {
			if key.state == state && d.in(state) >= 0 {
				return fmt.Errorf("key %d: damaged: more than one is %s", i+1, state)
			}
		}
		d.keys = append(d.keys, key)
	}
	if d.in(Signing) < 0 {
		return errors.New("damaged: no key signs")
	}
	for _, r := range kept.Revoked {
		d.revoked = append(d.revoked, revokedKey{id: r.ID, at: r.At})
	}
	return nil
}

func (k *keptKey) key() (key signingKey, err error) {
	switch k.State {
	case Published, Signing, VerifyOnly:
	default:
		return key, fmt.Errorf("damaged: unknown state %.16q", string(k.State))
	}
	if (k.Due != nil) != (k.State == Published) {
		return key, fmt.Errorf("damaged: the time to sign is missing, or not allowed in state %s", k.State)
	}
	key = signingKey{state: k.State, created: k.Created, since: k.Since}
	if k.Due != nil {
		key.due = *k.Due
	}
	if key.pair, err = parsePair(k.Algorithm, k.Private); err != nil {
		return key, err
	}
	if key.id != k.ID {
		return key, fmt.Errorf("damaged: kid is %.64q but the key's thumbprint is %q", k.ID, key.id)
	}
	return key, nil
}

func (kept *keyDocument) readSecrets(d *document) error {
	seen := make(map[string]bool)
	for i, s := range kept.Refresh {
		if s.ID == "" || len(s.Secret) != deriverLength || seen[s.ID] {
			return fmt.Errorf("refresh secret %d: damaged: it needs an id of its own and %d bytes", i+1, deriverLength)
		}
		seen[s.ID] = true
		d.derivers = append(d.derivers, deriver{id: s.ID, created: s.Created, secret: s.Secret})
	}
	return nil
}

// encode returns the form that parseDocument reads.
func (d *document) encode() ([]byte, error) {
	kept := keyDocument{Version: documentVersion, Counter: d.counter, Audit: d.audit, Head: d.head}
	for i := range d.keys {
		k := &d.keys[i]
		private, err := k.secret()
		if err != nil {
			return nil, fmt.Errorf("encode a key: %w", err)
		}
		to := keptKey{ID: k.id, Algorithm: k.algorithm, State: k.state, Created: k.created.UTC(), Since: k.since.UTC(), Private: private}
		if k.state == Published {
			due := k.due.UTC()
			to.Due = &due
		}
		kept.Keys = append(kept.Keys, to)
	}
	for _, r := range d.revoked {
		kept.Revoked = append(kept.Revoked, keptRevoked{ID: r.id, At: r.at.UTC()})
	}
	for _, s := range d.derivers {
		kept.Refresh = append(kept.Refresh, keptSecret{ID: s.id, Created: s.created.UTC(), Secret: s.secret})
	}
	text, err := json.MarshalIndent(kept, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return append(text, '\n'), nil
}
