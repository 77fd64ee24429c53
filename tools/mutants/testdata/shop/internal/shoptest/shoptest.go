// Package shoptest supports tests.
package shoptest

import "testing"

// Equal compares numbers.
func Equal(t *testing.T, got, want int) {
	t.Helper()
	if got != want {
		t.Errorf("%d, want %d", got, want)
	}
}
