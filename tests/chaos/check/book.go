package check

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/ruedahq/rueda/tests/chaos/market"
	"github.com/ruedahq/rueda/tests/chaos/stream"
)

// clientBook is the book of a client.
type clientBook struct {
	market.Book
	depth int
	n     int64
	valid bool // there was an R:true, and each message since
}

// apply changes the book by a message, and returns what is wrong with it.
func (b *clientBook) apply(in *market.Instrument, m *stream.Message) string {
	if m.Snapshot() {
		if m.DL == nil || m.L != nil || m.A == nil || m.B == nil {
			return "whole book: DL, A, B or L"
		}
		*b = clientBook{depth: *m.DL, valid: true}
	} else {
		if m.DL != nil || m.L == nil {
			return "change: DL or L"
		}
		if !b.valid {
			return "change: there was no whole book"
		}
		if *m.L != b.n {
			b.valid = false
			return "chain: L is not " + strconv.FormatInt(b.n, 10)
		}
	}
	for side, rows := range map[*[]market.Level][][]json.Number{&b.Bids: m.B, &b.Asks: m.A} {
		sign := int64(1)
		if side == &b.Bids {
			sign = -1
		}
		if wrong := change(in, side, rows, sign, m.Snapshot()); wrong != "" {
			return wrong
		}
	}
	b.n = *m.N
	return ""
}

// change applies the levels of a message to a side.
func change(in *market.Instrument, side *[]market.Level, rows [][]json.Number, sign int64, whole bool) string {
	for i, row := range rows {
		if len(row) != 2 && len(row) != 3 {
			return "level: of another form"
		}
		p, okP := Units(row[0], in.PriceDecimals)
		z, okZ := Units(row[1], in.SizeDecimals)
		if !okP || !okZ || z < 0 || whole && z == 0 {
			return "level: a number of another form"
		}
		l := market.Level{P: p, Z: z}
		if len(row) == 3 {
			l.Orders = stream.Integer(row[2])
		}
		if i > 0 {
			if before, _ := Units(rows[i-1][0], in.PriceDecimals); sign*before >= sign*p {
				return "level: not best first"
			}
		}
		at, found := slices.BinarySearchFunc(*side, l, func(a, b market.Level) int { return cmp.Compare(sign*a.P, sign*b.P) })
		switch {
		case z == 0 && !found:
			return "level: one is removed that the client does not have"
		case z == 0:
			*side = slices.Delete(*side, at, at+1)
		case found:
			(*side)[at] = l
		default:
			*side = slices.Insert(*side, at, l)
		}
	}
	return ""
}

// Units returns a decimal in units of its last decimal, and whether it has the shortest form.
func Units(n json.Number, decimals int) (v int64, ok bool) {
	whole, fraction, _ := strings.Cut(string(n), ".")
	if len(fraction) > decimals {
		return 0, false
	}
	v, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", decimals-len(fraction)), 10, 64)
	return v, err == nil && market.Decimal(v, decimals) == string(n)
}
