package keyset

import (
	"context"

	"github.com/ruedahq/rueda/internal/base/audit"
)

// Anchored returns the head of the audit log that Anchor has stored; zero: none.
func (k *Set) Anchored() (audit.Head, error) {
	text := k.ring.Load().head
	if text == "" {
		return audit.Head{}, nil
	}
	return audit.ParseHead(text)
}

// Anchor stores a head of the audit log in the document if the stored one is still from. Somebody
// who can write only to the database cannot change it.
func (k *Set) Anchor(ctx context.Context, from, head audit.Head) error {
	return k.anchor(ctx, head, func(stored audit.Head) bool { return stored == from })
}

// Reanchor stores a head whatever is stored. Call it after an older database was restored.
func (k *Set) Reanchor(ctx context.Context, head audit.Head) error {
	return k.anchor(ctx, head, func(audit.Head) bool { return true })
}

func (k *Set) anchor(ctx context.Context, head audit.Head, replaces func(stored audit.Head) bool) error {
	if !k.lock(ctx) {
		return ctx.Err()
	}
	defer k.unlock()
	_, err := k.change(ctx, func(e *edit) error {
		stored, err := audit.ParseHead(e.head)
		if err == nil && !replaces(stored) {
			return nil
		}
		e.head, e.quiet = head.String(), true
		return nil
	})
	return err
}
