package keyset

import (
	"context"
	"slices"
	"sync"
)

// memoryKeys stores the document in memory.
type memoryKeys struct {
	mu       sync.Mutex
	document []byte
	watchers map[chan struct{}]bool
}

// MemoryStore returns a store in memory: a restart ends all tokens.
func MemoryStore() Store { return &memoryKeys{watchers: make(map[chan struct{}]bool)} }

// Load implements Store.
func (m *memoryKeys) Load(context.Context) ([]byte, string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.document == nil {
		return nil, "", ErrNoDocument
	}
	return slices.Clone(m.document), versionOf(m.document), nil
}

// Save implements Store.
func (m *memoryKeys) Save(_ context.Context, document []byte, version string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := ""
	if m.document != nil {
		now = versionOf(m.document)
	}
	if now != version {
		return ErrConflict
	}
	m.document = slices.Clone(document)
	for w := range m.watchers {
		select {
		case w <- struct{}{}:
		default: // a change is already pending
		}
	}
	return nil
}

// Watch implements Store.
func (m *memoryKeys) Watch(ctx context.Context, changed func()) error {
	w := make(chan struct{}, 1)
	m.mu.Lock()
	m.watchers[w] = true
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.watchers, w)
	}()
	changed() // for changes between the caller's load and now
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w:
			changed()
		}
	}
}
