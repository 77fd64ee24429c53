package keyset

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// keyModel has what the model knows about keys in addition to the document: when each was first
// public, and when its last token ends.
type keyModel struct {
	t       *rapid.T
	rules   keyRules
	now     time.Time
	d       *document
	made    int
	public  map[string]time.Time
	lives   map[string]time.Time
	revoked map[string]bool
	atOnce  map[string]bool // keys that signed immediately (--now)
}

// step edits the document as Set.change does.
func (m *keyModel) step(do func(*edit) error) error {
	e := &edit{document: m.d.clone(), now: m.now, make: func(algorithm string) (pair, error) {
		m.made++
		return pair{id: fmt.Sprint("key ", m.made), algorithm: algorithm}, nil
	}}
	if err := do(e); err != nil {
		return err
	}
	m.d = e.document
	for _, c := range e.changes {
		if c.State == Revoked {
			m.revoked[c.ID] = true
		}
	}
	m.check()
	return nil
}

func (m *keyModel) check() {
	signing := 0
	for i := range m.d.keys {
		k := &m.d.keys[i]
		if m.revoked[k.id] {
			m.t.Fatalf("%s is revoked, and there", k.id)
		}
		if m.public[k.id].IsZero() {
			m.public[k.id] = m.now
		}
		if k.state == Signing {
			signing++
			if known := m.now.Sub(m.public[k.id]); known < publishedFor && !m.atOnce[k.id] {
				m.t.Fatalf("%s signs, and was public for %v", k.id, known)
			}
			if end := m.now.Add(m.rules.lifetime); end.After(m.lives[k.id]) {
				m.lives[k.id] = end
			}
		}
	}
	if signing != 1 {
		m.t.Fatalf("%d keys sign", signing)
	}
	for id, end := range m.lives {
		if m.d.find(id) < 0 && !m.revoked[id] && m.now.Before(end) {
			m.t.Fatalf("%s is gone, and a token of it lives for %v", id, end.Sub(m.now))
		}
	}
}

// TestKeyRulesModel applies random actions of operators while the clock goes forward. Exactly one
// key signs. No key signs before all clients could know it, unless --now was given. No key is
// deleted while it has valid tokens, unless it was revoked.
func TestKeyRulesModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		start := time.Unix(1_800_000_000, 0)
		m := &keyModel{
			t: rt, now: start, public: map[string]time.Time{}, lives: map[string]time.Time{}, revoked: map[string]bool{}, atOnce: map[string]bool{"first": true},
			rules: keyRules{
				rotate:    time.Duration(rapid.IntRange(0, 72).Draw(rt, "rotate")) * time.Hour,
				lifetime:  time.Duration(rapid.IntRange(1, 48).Draw(rt, "lifetime")) * time.Hour,
				algorithm: ES256,
			},
			d: &document{keys: []signingKey{{pair: pair{id: "first", algorithm: ES256}, state: Signing, created: start, since: start}}},
		}
		m.check()
		for range rapid.IntRange(1, 120).Draw(rt, "steps") {
			m.now = m.now.Add(time.Duration(rapid.SampledFrom([]int{1, 10, 15, 300, 600, 601, 3600, 40_000, 90_000}).Draw(rt, "seconds")) * time.Second)
			if rapid.IntRange(0, 3).Draw(rt, "who") > 0 {
				if err := m.step(func(e *edit) error { return e.advance(&m.rules) }); err != nil {
					rt.Fatal(err)
				}
				continue
			}
			o := Rotation{Now: rapid.Bool().Draw(rt, "now"), Algorithm: rapid.SampledFrom([]string{"", ES256, EdDSA}).Draw(rt, "alg")}
			if rapid.Bool().Draw(rt, "revoke") {
				o.Revoke = m.d.keys[rapid.IntRange(0, len(m.d.keys)-1).Draw(rt, "which")].id
			}
			m.rotate(o)
		}
	})
}

func (m *keyModel) rotate(o Rotation) {
	signs := m.d.keys[m.d.in(Signing)].id
	err := m.step(func(e *edit) error {
		err := e.rotate(o, &m.rules)
		if o.Now {
			m.atOnce[e.keys[e.in(Signing)].id] = true
		}
		return err
	})
	next := m.d.keys[m.d.in(Signing)].id
	switch {
	case o.Revoke == signs && !o.Now:
		if !errors.Is(err, ErrSigningKey) || next != signs {
			m.t.Fatalf("the signing key was revoked without another: %v", err)
		}
	case err != nil:
		m.t.Fatal(err)
	case o.Now == (next == signs):
		m.t.Fatalf("%+v: %s signs, before %s", o, next, signs)
	case o.Revoke != "" && (m.d.find(o.Revoke) >= 0 || !m.revoked[o.Revoke]):
		m.t.Fatalf("%s is not revoked", o.Revoke)
	case !o.Now && m.d.in(Published) < 0:
		m.t.Fatal("no next key is published")
	}
}
