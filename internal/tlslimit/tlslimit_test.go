package tlslimit

import "testing"

// TestTotal checks that handshakes which need many bytes have a limit together, and usual ones do
// not wait for them.
func TestTotal(t *testing.T) {
	l := New(1, 1, 1, nil)
	l.read.Store(MaxTotal)
	h := l.Handshake()
	h.Add(FreeRead - 1)
	if h.Left() == 0 {
		t.Error("a usual handshake waits for large ones")
	}
	h.Add(1)
	if h.Left() != 0 {
		t.Error("a large handshake may go on above the limit")
	}
	h.End()
	l.read.Store(0)
	h = l.Handshake()
	h.Add(FreeRead)
	if left := h.Left(); left != MaxRead-FreeRead {
		t.Errorf("%d bytes left", left)
	}
	h.Add(MaxRead - FreeRead)
	if h.Left() != 0 {
		t.Error("a handshake may be of any size")
	}
	h.End()
	if l.Pending() != 0 {
		t.Errorf("%d bytes are left over", l.Pending())
	}
}
