package steplock

import "testing"

// holds records the visits of each hold.
type holds struct {
	locked  int
	visited []int
}

func (h *holds) Locked()         { h.locked++ }
func (h *holds) Unlocking(n int) { h.visited = append(h.visited, n) }

// TestStep checks that a hold ends when it has visited Piece things, and that a watcher sees the
// visits of each hold.
func TestStep(t *testing.T) {
	var m Mutex
	w := &holds{}
	m.Watch(w)
	m.Lock()
	pauses := 0
	for range 2*Piece + 5 {
		if m.Step(1) {
			pauses++
		}
	}
	m.Visit(3)
	m.Unlock()
	if pauses != 2 || w.locked != 3 || len(w.visited) != 3 || w.visited[0] != Piece || w.visited[2] != 8 {
		t.Errorf("%d pauses, %+v", pauses, w)
	}
	m.Lock()
	m.Watch(nil)
	if !m.Step(5 * Piece) {
		t.Error("no pause after too many visits at once")
	}
	m.Unlock()
	if w.locked != 4 || len(w.visited) != 3 {
		t.Errorf("a watcher that was removed: %+v", w)
	}
}
