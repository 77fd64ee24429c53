package keyset

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ruedahq/rueda/internal/base/audit"
)

// Floor stores the highest counter of a document.
type Floor interface {
	// KeyFloor returns the counter; 0: none is stored.
	KeyFloor(ctx context.Context) (int64, error)
	// RaiseKeyFloor stores a counter, unless a higher one is stored.
	RaiseKeyFloor(ctx context.Context, counter int64) error
}

// ErrOlder is the error of a document that is older than one that was used before. It may contain
// keys that were revoked since.
var ErrOlder = errors.New("the stored keys are older than those that were used before, and may include a revoked key: put the newest document back; if it is lost, run rueda keys accept-older")

// floor returns the stored counter; 0: none is stored.
func (k *Set) floor(ctx context.Context) (int64, error) {
	if k.cfg.Floor == nil {
		return 0, nil
	}
	floor, err := k.cfg.Floor.KeyFloor(ctx)
	if err != nil {
		return 0, fmt.Errorf("compare with the newest keys: %w", err)
	}
	return floor, nil
}

// checkAge refuses a document that is older than one that this process or, by the floor, another
// one has used.
func (k *Set) checkAge(ctx context.Context, d *document, floor int64) error {
	least := max(k.seen, floor)
	switch {
	case d.counter >= least:
	case k.cfg.AcceptOlder && !k.checked:
		k.noteOlder("older keys accepted", d.counter, least)
		d.counter = least
	default:
		if !k.refused {
			k.refused = true
			k.cfg.Logger.Error("older keys refused, keeping the current ones", "count", d.counter, "last", least)
			k.noteOlder("older keys refused", d.counter, least)
		}
		return ErrOlder
	}
	k.seen, k.checked, k.refused = d.counter, true, false
	if d.counter > floor {
		k.raiseFloor(ctx)
	}
	return nil
}

// noteOlder queues an audit row about an older document.
func (k *Set) noteOlder(what string, counter, least int64) {
	if len(k.unrecorded) < maxUnrecorded {
		detail := fmt.Sprintf("%s: save %d after save %d", what, counter, least)
		k.unrecorded = append(k.unrecorded, audit.Event{Time: time.Now(), Kind: audit.KeyChanged, Actor: k.cfg.Actor, Detail: detail})
	}
}

// raiseFloor stores the counter. After an error a later load or save stores it.
func (k *Set) raiseFloor(ctx context.Context) {
	if k.cfg.Floor == nil {
		return
	}
	if err := k.cfg.Floor.RaiseKeyFloor(ctx, k.seen); err != nil {
		k.checked = false
		k.cfg.Logger.Warn("counter of the keys not stored", "error", err)
	}
}

// revokeAgain revokes the keys of a loaded document that were revoked before: the document is an
// older one. It saves an older document that was accepted.
func (k *Set) revokeAgain(ctx context.Context, d *document, version string) error {
	if k.cfg.RevokedKeys == nil {
		return nil
	}
	ids, err := k.cfg.RevokedKeys(ctx)
	if err != nil {
		return fmt.Errorf("read which keys were revoked: %w", err)
	}
	e := &edit{document: d, now: time.Now(), make: newPair}
	for _, id := range ids {
		i := d.find(id)
		if i < 0 {
			continue
		}
		k.cfg.Logger.Error("stored keys have a revoked key, revoking it again", "key", id)
		if err := e.rotate(Rotation{Now: d.keys[i].state == Signing, Revoke: id}, k.rules()); err != nil {
			return err
		}
	}
	if !e.changed() && !k.cfg.AcceptOlder {
		return nil
	}
	if err := k.save(ctx, d, version); err != nil {
		return err
	}
	k.note(e.now, "", e.changes...)
	return nil
}

// Record writes the steps that Open has made to the audit log. Run writes the steps that Record
// could not write.
func (k *Set) Record(ctx context.Context) {
	if k.lock(ctx) {
		defer k.unlock()
		k.record(ctx)
	}
}
