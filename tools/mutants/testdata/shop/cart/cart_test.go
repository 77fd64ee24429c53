package cart

import "testing"

func TestSum(t *testing.T) {
	if got := Sum(20); got != 38 {
		t.Errorf("the sum is %d", got)
	}
}

func TestFewE2E(t *testing.T) {
	if got := Sum(1); got != 6 {
		t.Errorf("the sum is %d", got)
	}
}
