package auth

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/audit"
)

const (
	// saveTries is how often a change is made anew on what somebody else has saved meanwhile.
	saveTries = 8
	// keysTick is how often the clock is asked what it wants done.
	keysTick = 15 * time.Second
	// keysReload is after how many ticks the document is read whatever the store has told.
	keysReload = 20
	// keysWatchAgain is after how long a watch that failed is begun again.
	keysWatchAgain = 2 * time.Second
	// maxUntold bounds what waits for an audit log that is down.
	maxUntold = 1000
)

// Run takes keys through their states by the clock, and takes up what other processes change,
// until ctx ends; it then returns nil. While the store is down the keys stay as they are, and
// it tries again.
func (k *KeySet) Run(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	var watch sync.WaitGroup
	defer watch.Wait()
	watch.Go(func() { k.watch(ctx, changed) })
	tick := time.NewTicker(keysTick)
	defer tick.Stop()
	k.round(ctx, true)
	for n := 1; ; n++ {
		reload := n%keysReload == 0
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			reload = true
		case <-tick.C:
		}
		k.round(ctx, reload)
	}
}

// watch says on changed that the document may have been replaced.
func (k *KeySet) watch(ctx context.Context, changed chan<- struct{}) {
	for {
		err := k.store.Watch(ctx, func() {
			select {
			case changed <- struct{}{}:
			default: // one is waiting already
			}
		})
		if ctx.Err() != nil {
			return
		}
		k.cfg.Logger.Warn("keys not watched, trying again", "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(keysWatchAgain):
		}
	}
}

// round reads the document if it may have changed, does what the clock wants done, and tells the audit log.
func (k *KeySet) round(ctx context.Context, reload bool) {
	if !k.take(ctx) {
		return
	}
	defer k.give()
	if !reload {
		reload = k.wants(time.Now())
	}
	if reload {
		_, err := k.change(ctx, func(e *edit) error { return e.advance(k.rules()) })
		k.report(ctx, err)
	}
	k.tell(ctx)
}

// wants says whether the clock wants something done with the keys as they are known here.
func (k *KeySet) wants(now time.Time) bool {
	e := &edit{document: k.ring.Load().clone(), now: now, make: func(string) (pair, error) { return pair{}, nil }}
	return e.advance(k.rules()) != nil || e.changed() || k.failing
}

// report logs a store that is down once, and once that it is back.
func (k *KeySet) report(ctx context.Context, err error) {
	switch {
	case err == nil && k.failing:
		k.failing = false
		k.cfg.Logger.Info("keys can be read and changed again")
	case err != nil && !k.failing && ctx.Err() == nil:
		k.failing = true
		k.cfg.Logger.Warn("keys not read or changed, the present ones stay", "error", err)
	}
}

// Rotate does what an operator wants of the keys, and says what became of which key. The error is ErrNoSuchKey,
// ErrSigningKey, ErrTooManyKeys, or that of the store.
func (k *KeySet) Rotate(ctx context.Context, o KeyRotation) ([]KeyChange, error) {
	if o.Algorithm != "" && !knownAlgorithm(o.Algorithm) {
		return nil, unknownAlgorithm(o.Algorithm)
	}
	if !k.take(ctx) {
		return nil, ctx.Err()
	}
	defer k.give()
	changes, err := k.change(ctx, func(e *edit) error { return e.rotate(o, k.rules()) })
	if err != nil {
		return nil, err
	}
	k.tell(ctx)
	if len(k.untold) > 0 {
		k.cfg.Logger.Warn("the keys have changed, and the audit log does not know it")
	}
	return changes, nil
}

// Reseal saves the document encrypted with another key.
func (k *KeySet) Reseal(ctx context.Context, with EncryptionKey) error {
	if !k.take(ctx) {
		return ctx.Err()
	}
	defer k.give()
	d, version, _, err := k.load(ctx)
	if err != nil {
		return err
	}
	k.cfg.Encryption = func() (EncryptionKey, error) { return with, nil }
	return k.save(ctx, d, version)
}

// take waits for the turn; false: ctx has ended.
func (k *KeySet) take(ctx context.Context) bool {
	select {
	case k.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (k *KeySet) give() { <-k.turn }

// change applies do to the document as it is kept, saves it if that changed anything, and takes it up. Where somebody
// else was faster, do is applied to what they have saved.
func (k *KeySet) change(ctx context.Context, do func(*edit) error) ([]KeyChange, error) {
	for range saveTries {
		d, version, _, err := k.load(ctx)
		if err != nil {
			return nil, err
		}
		e := &edit{document: d, now: time.Now(), make: newPair}
		if err := do(e); err != nil {
			return nil, err
		}
		if e.changed() || k.plain && k.cfg.Encryption != nil {
			err = k.save(ctx, e.document, version)
		}
		if errors.Is(err, ErrConflict) {
			continue
		}
		if err != nil {
			return nil, err
		}
		k.note(e.now, e.changes...)
		return e.changes, k.install(e.document)
	}
	return nil, fmt.Errorf("save %s, %d times: %w", k.place(), saveTries, ErrConflict)
}

// place is where the keys are, for errors.
func (k *KeySet) place() string {
	if s, ok := k.store.(fmt.Stringer); ok {
		return s.String()
	}
	return "keys"
}

// load reads the document. complete is false for one that has to be saved before it is used.
func (k *KeySet) load(ctx context.Context) (d *document, version string, complete bool, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read %s: %w", k.place(), err)
		}
	}()
	data, version, err := k.store.Load(ctx)
	if err != nil {
		return nil, "", false, err
	}
	k.plain = !IsSealed(data)
	if k.plain && k.sealed && k.cfg.Encryption != nil {
		return nil, "", false, ErrNotEncrypted
	}
	if !k.plain {
		if k.cfg.Encryption == nil {
			return nil, "", false, ErrNoEncryptionKey
		}
		key, err := k.cfg.Encryption()
		if err != nil {
			return nil, "", false, err
		}
		if data, err = key.open(data); err != nil {
			return nil, "", false, err
		}
		k.sealed = true
	}
	d, complete, err = parseDocument(data)
	return d, version, complete, err
}

func (k *KeySet) save(ctx context.Context, d *document, version string) error {
	data, err := d.encode()
	if err != nil {
		return err
	}
	if k.cfg.Encryption != nil {
		key, err := k.cfg.Encryption()
		if err != nil {
			return err
		}
		if data, err = key.seal(data); err != nil {
			return err
		}
	}
	if err := k.store.Save(ctx, data, version); err != nil {
		return fmt.Errorf("save %s: %w", k.place(), err)
	}
	k.sealed = k.cfg.Encryption != nil
	return nil
}

// install takes up a document. A key that is gone before its time takes its sockets with it.
func (k *KeySet) install(d *document) error {
	next, err := newRing(d)
	if err != nil {
		return err
	}
	before := k.ring.Swap(next)
	if before == nil {
		return nil
	}
	rules, now := k.rules(), time.Now()
	for id, key := range before.byID {
		if next.byID[id] == nil && (next.over[id] || key.state != KeyVerifyOnly || now.Before(rules.end(key))) {
			k.cfg.Logger.Warn("key is gone before its time, its tokens are over", "key", id)
			k.cfg.OnRevoke(id)
		}
	}
	return nil
}

// note keeps steps of keys for the audit log.
func (k *KeySet) note(at time.Time, changes ...KeyChange) {
	for _, c := range changes {
		k.cfg.Logger.Info("key changed", "key", c.ID, "state", string(c.State))
		if len(k.untold) < maxUntold {
			k.untold = append(k.untold, audit.Event{Time: at, Kind: audit.KeyChanged, Actor: k.cfg.Actor, Detail: string(c.State) + " " + c.ID})
		}
	}
}

// tell gives the audit log what it has yet to be told.
func (k *KeySet) tell(ctx context.Context) {
	if len(k.untold) == 0 {
		return
	}
	if err := k.cfg.Audit(ctx, k.untold...); err != nil {
		if ctx.Err() == nil {
			k.cfg.Logger.Warn("changes of keys not in the audit log yet", "error", err)
		}
		return
	}
	k.untold = nil
}
