package keyset

import (
	"context"
	"sync"
	"testing"
)

// sharedFloor is the floor of several processes.
type sharedFloor struct {
	mu      sync.Mutex
	counter int64
}

func (f *sharedFloor) KeyFloor(context.Context) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counter, nil
}

func (f *sharedFloor) RaiseKeyFloor(_ context.Context, counter int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counter = max(f.counter, counter)
	return nil
}

// interrupted is a store in which another process saves right after the first load.
type interrupted struct {
	Store
	save func()
}

func (s *interrupted) Load(ctx context.Context) ([]byte, string, error) {
	data, version, err := s.Store.Load(ctx)
	if s.save != nil {
		s.save()
		s.save = nil
	}
	return data, version, err
}

// TestSaveDuringOpen checks that a process starts although another one saves the keys between its
// reads of the document and of the floor.
func TestSaveDuringOpen(t *testing.T) {
	store, floor := MemoryStore(), &sharedFloor{}
	running, err := Open(t.Context(), store, Config{Floor: floor})
	if err != nil {
		t.Fatal(err)
	}
	before := floor.counter
	_, err = Open(t.Context(), &interrupted{store, func() {
		if _, err := running.Rotate(t.Context(), Rotation{}); err != nil {
			t.Error(err)
		}
	}}, Config{Floor: floor})
	if err != nil {
		t.Errorf("the second process does not start: %v", err)
	}
	if floor.counter == before {
		t.Error("nothing was saved")
	}
}
