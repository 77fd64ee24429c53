package query

import (
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/internal/ops/cli/output"
	"github.com/ruedahq/rueda/market"
)

// TestTradeCells checks that a correction has what it corrects, in the columns of that name.
func TestTradeCells(t *testing.T) {
	const scale = market.Scale
	var correction client.Trade
	correction.N, correction.RefN, correction.Kind, correction.ID = 9, 4, market.KindCorrect, "88"
	correction.Price, correction.Size, correction.OldPrice, correction.OldSize = 7045*scale, 2*scale, 7450*scale, 20*scale
	trade := correction
	trade.Kind = market.KindTrade
	for _, c := range []struct {
		trade *client.Trade
		want  string
	}{
		{&correction, "seq=9 kind=correct price=7045 size=2 trade_id=88 ref_seq=4 old_price=7450 old_size=20"},
		{&trade, "seq=9 kind=trade price=7045 size=2 trade_id=88 ref_seq=4"},
	} {
		var got []string
		for i, cell := range tradeCells(new(output.Writer), c.trade) {
			if name := tradeColumns()[i]; cell != "" && !slices.Contains([]string{"ts", "side"}, name) {
				got = append(got, name+"="+cell)
			}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("got %s, want %s", text, c.want)
		}
	}
}
