package market

import "strings"

// Limits on the work and the memory of a suggestion.
const (
	maxNearSymbols = 16  // symbols kept for each key
	maxNearIDs     = 256 // identifiers compared for each symbol
)

// nearIndex finds identifiers that are similar to a wrong one. It files each symbol, in lower case,
// under itself and under every form with one letter left out. Two symbols one typing error apart (a
// letter wrong, missing, extra, or two swapped) then share a key, whatever the number of symbols.
type nearIndex struct {
	bySymbol map[string][]int    // lower-case symbol: indexes of its identifiers
	byKey    map[string][]string // key: lower-case symbols
}

func (n *nearIndex) add(id InstrumentID, index int) {
	if n.bySymbol == nil {
		n.bySymbol = make(map[string][]int)
		n.byKey = make(map[string][]string)
	}
	symbol := strings.ToLower(id.Symbol)
	ids := n.bySymbol[symbol]
	if len(ids) < maxNearIDs {
		n.bySymbol[symbol] = append(ids, index)
	}
	if len(ids) > 0 {
		return
	}
	for key := range nearKeys(symbol) {
		if near := n.byKey[key]; len(near) < maxNearSymbols {
			n.byKey[key] = append(near, symbol)
		}
	}
}

// find returns the index of the best suggestion for id.
func (n *nearIndex) find(id InstrumentID, list []Instrument) (best int, ok bool) {
	symbol := strings.ToLower(id.Symbol)
	score := -1
	consider := func(candidate string) {
		for _, i := range n.bySymbol[candidate] {
			if s := similarity(id, list[i].ID); s > score || (s == score && i < best) {
				best, score, ok = i, s, true
			}
		}
	}
	if consider(symbol); ok {
		return best, true
	}
	for key := range nearKeys(symbol) {
		for _, candidate := range n.byKey[key] {
			if oneEdit(symbol, candidate) {
				consider(candidate)
			}
		}
	}
	return best, ok
}

// similarity scores how well market and term agree. The market weighs more.
func similarity(want, have InstrumentID) int {
	score := 0
	market, term := strings.EqualFold(want.Market, have.Market), strings.EqualFold(want.Term, have.Term)
	if !market && !term && strings.EqualFold(want.Market, have.Term) && strings.EqualFold(want.Term, have.Market) {
		market, term = true, true // swapped
	}
	if market {
		score += 4
	}
	if term {
		score += 2
	}
	if want.Symbol == have.Symbol {
		score++ // prefer equal case
	}
	return score
}

// nearKeys returns the keys of a symbol: the symbol itself and every form with one letter left out.
func nearKeys(symbol string) map[string]struct{} {
	keys := map[string]struct{}{symbol: {}}
	if len(symbol) > 1 {
		for i := range len(symbol) {
			keys[symbol[:i]+symbol[i+1:]] = struct{}{}
		}
	}
	return keys
}

// oneEdit reports whether a becomes b by changing, removing or inserting one letter, or by swapping
// two neighbours.
func oneEdit(a, b string) bool {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	a, b = a[i:], b[i:]
	switch len(a) - len(b) {
	case 1:
		return a[1:] == b
	case -1:
		return a == b[1:]
	case 0:
		return len(a) > 0 && (a[1:] == b[1:] || len(a) > 1 && a[0] == b[1] && a[1] == b[0] && a[2:] == b[2:])
	}
	return false
}
