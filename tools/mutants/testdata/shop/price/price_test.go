package price

import (
	"testing"

	"example.com/shop/internal/fixture"
	"example.com/shop/internal/shoptest"
)

func TestTotal(t *testing.T) {
	t.Run("three", func(t *testing.T) {
		shoptest.Equal(t, Total(fixture.Pieces(), 2), 6)
	})
	shoptest.Equal(t, Tax(), 2)
}

func TestRebate(t *testing.T) { shoptest.Equal(t, Rebate(3), 0) }
