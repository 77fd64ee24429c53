package keyset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/base/audit"
)

const (
	// saveTries bounds how often a change is applied again after a conflict.
	saveTries = 8
	// keysTick is the interval between two checks for due steps.
	keysTick = 15 * time.Second
	// keysReload is the number of ticks after which the document is loaded in any case.
	keysReload = 20
	// keysWatchAgain is the delay before a failed watch is started again.
	keysWatchAgain = 2 * time.Second
	// maxUnrecorded bounds the steps that wait for an audit log that is down.
	maxUnrecorded = 1000
)

// Run moves keys through their states by the clock and loads the changes of other processes, until
// ctx ends. It returns nil. While the store is down, the keys stay as they are and Run retries.
func (k *Set) Run(ctx context.Context) error {
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

// watch signals on changed that the document may have been replaced.
func (k *Set) watch(ctx context.Context, changed chan<- struct{}) {
	for {
		err := k.store.Watch(ctx, func() {
			select {
			case changed <- struct{}{}:
			default: // a change is already pending
			}
		})
		if ctx.Err() != nil {
			return
		}
		k.cfg.Logger.Warn("watching keys failed, retrying", "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(keysWatchAgain):
		}
	}
}

// round loads the document if it may have changed, applies due steps and writes the audit log.
func (k *Set) round(ctx context.Context, reload bool) {
	if !k.lock(ctx) {
		return
	}
	defer k.unlock()
	if !reload {
		reload = k.wants(time.Now())
	}
	if reload {
		_, err := k.change(ctx, func(e *edit) error { return e.advance(k.rules()) })
		k.report(ctx, err)
	}
	k.record(ctx)
}

// wants reports whether a step is due.
func (k *Set) wants(now time.Time) bool {
	e := &edit{document: k.ring.Load().clone(), now: now, make: func(string) (pair, error) { return pair{}, nil }}
	return e.advance(k.rules()) != nil || e.changed() || k.failing
}

// report logs once that the store is down, and once that it is up again.
func (k *Set) report(ctx context.Context, err error) {
	switch {
	case err == nil && k.failing:
		k.failing = false
		k.cfg.Logger.Info("keys can be read and changed again")
	case err != nil && !k.failing && ctx.Err() == nil:
		k.failing = true
		k.cfg.Logger.Warn("keys not read or changed, keeping the current ones", "error", err)
	}
}

// Rotate applies a request of an operator and returns the changes. The error is ErrNoSuchKey,
// ErrSigningKey, ErrTooManyKeys, ErrAlgorithm or that of the store.
func (k *Set) Rotate(ctx context.Context, o Rotation) ([]Change, error) {
	if o.Algorithm != "" && !knownAlgorithm(o.Algorithm) {
		return nil, unknownAlgorithm(o.Algorithm)
	}
	if !k.lock(ctx) {
		return nil, ctx.Err()
	}
	defer k.unlock()
	changes, err := k.change(ctx, func(e *edit) error {
		e.actor = o.Actor
		return e.rotate(o, k.rules())
	})
	if err != nil {
		return nil, err
	}
	k.record(ctx)
	if len(k.unrecorded) > 0 {
		k.cfg.Logger.Warn("keys changed, but not recorded in the audit log")
	}
	return changes, nil
}

// Reseal saves the document encrypted with another key.
func (k *Set) Reseal(ctx context.Context, with EncryptionKey) error {
	if !k.lock(ctx) {
		return ctx.Err()
	}
	defer k.unlock()
	d, version, _, err := k.load(ctx)
	if err != nil {
		return err
	}
	k.cfg.Encryption = func() (EncryptionKey, error) { return with, nil }
	return k.save(ctx, d, version)
}

// lock excludes other loads and saves. It reports false if ctx ended.
func (k *Set) lock(ctx context.Context) bool {
	select {
	case k.mu <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (k *Set) unlock() { <-k.mu }

// change applies do to the stored document, saves a changed one and installs it. After a conflict
// it applies do to the newer document.
func (k *Set) change(ctx context.Context, do func(*edit) error) ([]Change, error) {
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
		k.note(e.now, e.actor, e.changes...)
		return e.changes, k.install(e.document)
	}
	return nil, fmt.Errorf("save %s, %d times: %w", k.place(), saveTries, ErrConflict)
}

// place returns where the keys are stored, for errors.
func (k *Set) place() string {
	if s, ok := k.store.(fmt.Stringer); ok {
		return s.String()
	}
	return "keys"
}

// load loads the document and checks its age. complete is false if it must be saved before use.
func (k *Set) load(ctx context.Context) (d *document, version string, complete bool, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read %s: %w", k.place(), err)
		}
	}()
	d, version, complete, err = k.read(ctx)
	if err != nil {
		return nil, "", false, err
	}
	if k.checked && d.counter == k.seen {
		k.refused = false
		return d, version, complete, nil
	}
	// A process saves a document before it raises the floor. A document that is read after the
	// floor is therefore not older than the floor, unless an old copy was restored.
	floor, err := k.floor(ctx)
	if err == nil {
		d, version, complete, err = k.read(ctx)
	}
	if err == nil {
		err = k.checkAge(ctx, d, floor)
	}
	return d, version, complete, err
}

// read reads the document. complete is false if it must be saved before use.
func (k *Set) read(ctx context.Context) (d *document, version string, complete bool, err error) {
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

func (k *Set) save(ctx context.Context, d *document, version string) error {
	d.counter = max(d.counter, k.seen) + 1
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
	k.seen = d.counter
	k.raiseFloor(ctx)
	return nil
}

// install makes a document current and calls OnRevoke for its revoked keys.
func (k *Set) install(d *document) error {
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
		if next.byID[id] == nil && (next.over[id] || key.state != VerifyOnly || now.Before(rules.end(key))) {
			k.cfg.Logger.Warn("key revoked, its tokens are invalid", "key", id)
			k.cfg.OnRevoke(id)
		}
	}
	return nil
}

// note queues steps of keys for the audit log, by an actor or that of the configuration.
func (k *Set) note(at time.Time, actor string, changes ...Change) {
	for _, c := range changes {
		k.cfg.Logger.Info("key changed", "key", c.ID, "state", string(c.State))
		if len(k.unrecorded) < maxUnrecorded {
			k.unrecorded = append(k.unrecorded, audit.Event{Time: at, Kind: audit.KeyChanged, Actor: cmp.Or(actor, k.cfg.Actor), Detail: string(c.State) + " " + c.ID})
		}
	}
}

// record writes queued steps to the audit log.
func (k *Set) record(ctx context.Context) {
	if len(k.unrecorded) == 0 {
		return
	}
	if err := k.cfg.Audit(ctx, k.unrecorded...); err != nil {
		if ctx.Err() == nil {
			k.cfg.Logger.Warn("key changes not written to the audit log yet", "error", err)
		}
		return
	}
	k.unrecorded = nil
}
