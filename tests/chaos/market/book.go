package market

import (
	"cmp"
	"encoding/json"
	"hash/crc32"
	"slices"
	"strconv"
)

// width is the number of prices of each side at which there may be a level.
const width = 16

// Level is a level of a book, in units of the decimals of the instrument. Orders is 0 if the market
// does not count them.
type Level struct{ P, Z, Orders int64 }

// Book has both sides, best first.
type Book struct{ Bids, Asks []Level }

// middle returns the price between the sides after n book events.
func (in *Instrument) middle(n int64) int64 {
	step := (n/6 + int64(in.seed%80)) % 80
	if step > 40 {
		step = 80 - step
	}
	return in.base + step
}

// Book returns the book after n book events.
func (in *Instrument) Book(n int64) Book {
	side := func(sign int64) []Level {
		var list []Level
		for i := range int64(width) {
			if l := in.level(sign, i, n); l.Z != 0 {
				list = append(list, l)
			}
		}
		return list
	}
	if n == 0 {
		return Book{}
	}
	return Book{Bids: side(-1), Asks: side(1)}
}

// level returns the i-th price of a side; without a size there is no level. The best level of a
// side changes with each event, others less often.
func (in *Instrument) level(sign, i, n int64) Level {
	p := in.middle(n) + sign*(1+i)
	if i == 0 {
		h := mix(in.seed, 'b', uint64(sign), uint64(p), uint64(n))
		return in.counted(Level{P: p, Z: 1 + int64(h%500)*2 + n%2}, h)
	}
	of := mix(in.seed, 'l', uint64(sign), uint64(p))
	h := mix(of, uint64((n+int64(of>>32%64))/(2+int64(of%9))))
	if h%5 == 0 {
		return Level{}
	}
	return in.counted(Level{P: p, Z: 1 + int64(h>>8%1_000)}, h)
}

func (in *Instrument) counted(l Level, h uint64) Level {
	if in.Orders {
		l.Orders = 1 + int64(h>>40%9)
	}
	return l
}

// Top returns the book with at most depth levels of each side; 0 is all.
func (b Book) Top(depth int) Book {
	if depth == 0 {
		return b
	}
	return Book{b.Bids[:min(depth, len(b.Bids))], b.Asks[:min(depth, len(b.Asks))]}
}

// Checksum returns K of a book with the depth of the last whole book.
func (b Book) Checksum(depth int) int64 {
	n := 10
	if depth >= 1 && depth <= 9 {
		n = depth
	}
	var text []byte
	for i, side := range [][]Level{b.Bids, b.Asks} {
		if i == 1 {
			text = append(text, '|')
		}
		for _, l := range side[:min(n, len(side))] {
			text = append(strconv.AppendInt(text, l.P, 10), ':')
			text = append(strconv.AppendInt(text, l.Z, 10), ';')
		}
	}
	return int64(crc32.ChecksumIEEE(append(text, '|')))
}

// TopOfBook is a best bid and offer.
type TopOfBook struct{ Bid, Ask Level }

// Quote returns the quote of a quote event, or the top of the book at an event of an instrument
// that derives its quotes.
func (in *Instrument) Quote(e int64) TopOfBook {
	if !in.OwnQuotes {
		b := in.Book(in.Count(ChannelBook, e))
		return TopOfBook{b.Bids[0], b.Asks[0]}
	}
	h, p := in.hash('Q', e), in.middle(in.Count(ChannelBook, e))
	return TopOfBook{
		in.counted(Level{P: p - 1 - int64(h%4), Z: 1 + int64(h>>8%900)}, h),
		in.counted(Level{P: p + 1 + int64(h>>4%4), Z: 1 + int64(h>>20%900)}, h>>7),
	}
}

// bookLine adds the sides of a book event. Each 64th is the whole book.
func (in *Instrument) bookLine(m map[string]any, e int64, whole bool) {
	n := in.Count(ChannelBook, e)
	now := in.Book(n)
	if whole || n%64 == 1 {
		m["R"], m["B"], m["A"] = true, in.levels(now.Bids), in.levels(now.Asks)
		return
	}
	before := in.Book(n - 1)
	if c := changes(before.Bids, now.Bids, -1); c != nil {
		m["B"] = in.levels(c)
	}
	if c := changes(before.Asks, now.Asks, 1); c != nil {
		m["A"] = in.levels(c)
	}
}

// changes returns the levels that differ, best first; removed ones have size 0.
func changes(before, now []Level, sign int64) (list []Level) {
	old := map[int64]Level{}
	for _, l := range before {
		old[l.P] = l
	}
	for _, l := range now {
		if old[l.P] != l {
			list = append(list, l)
		}
		delete(old, l.P)
	}
	for _, l := range before {
		if _, gone := old[l.P]; gone {
			list = append(list, Level{P: l.P})
		}
	}
	slices.SortFunc(list, func(a, b Level) int { return cmp.Compare(sign*a.P, sign*b.P) })
	return list
}

func (in *Instrument) levels(list []Level) [][]json.Number {
	rows := [][]json.Number{}
	for _, l := range list {
		row := []json.Number{json.Number(Decimal(l.P, in.PriceDecimals)), json.Number(Decimal(l.Z, in.SizeDecimals))}
		if in.Orders && l.Z != 0 {
			row = append(row, json.Number(strconv.FormatInt(l.Orders, 10)))
		}
		rows = append(rows, row)
	}
	return rows
}
