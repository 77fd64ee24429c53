package market

import (
	"bytes"
	"encoding/json"
	"math/big"
	"testing"
	"time"
)

func newMarket() *Market {
	return New(7, time.Date(2026, 11, 20, 23, 59, 0, 0, time.UTC), 25*time.Millisecond, 3)
}

// TestChecksum compares with the example of the contract.
func TestChecksum(t *testing.T) {
	b := Book{Bids: []Level{{704950, 300, 4}, {704900, 150, 2}}, Asks: []Level{{705000, 1200, 9}, {705050, 80, 1}}}
	if k := b.Checksum(5); k != 4051739875 {
		t.Errorf("%d", k)
	}
	b = Book{Bids: []Level{{704950, 280, 3}, {704900, 150, 2}}, Asks: []Level{{705050, 80, 1}}}
	if k := b.Checksum(5); k != 3526765731 {
		t.Errorf("%d", k)
	}
	one := b
	one.Bids = b.Bids[:1]
	if b.Checksum(1) != one.Checksum(0) {
		t.Error("a depth of 1 has the checksum of one level")
	}
}

// TestNumbers checks that time, count and number of an event determine each other.
func TestNumbers(t *testing.T) {
	for _, in := range newMarket().Instruments {
		counts := map[byte]int64{}
		for e := range int64(500) {
			if in.Until(in.Time(e)) != e || in.Until(in.Time(e).Add(1)) != e+1 {
				t.Fatalf("%s: Until of event %d", in.ID, e)
			}
			at, ok := in.At(in.Time(e))
			if ok != (in.Kind(e) != 0) || ok && at != e {
				t.Fatalf("%s: event %d is found as %d, %v", in.ID, e, at, ok)
			}
			if _, ok := in.At(in.Time(e).Add(1)); ok {
				t.Fatalf("%s: an event a nanosecond after %d", in.ID, e)
			}
			channel := in.Channel(e)
			if channel == 0 {
				continue
			}
			counts[channel]++
			if n := in.Count(channel, e); n != counts[channel] || in.Nth(channel, n) != e {
				t.Fatalf("%s: event %d is number %d of %c, and the %dth is %d", in.ID, e, n, channel, n, in.Nth(channel, n))
			}
		}
	}
}

// TestBookLines checks that the lines of changes lead to each book.
func TestBookLines(t *testing.T) {
	for _, in := range newMarket().Instruments {
		sides := [2]map[string]string{}
		for n := int64(1); n < 300; n++ {
			var line struct {
				R    bool
				B, A [][]json.Number
			}
			if err := json.Unmarshal(in.Line(in.Nth(ChannelBook, n), n == 1), &line); err != nil {
				t.Fatal(err)
			}
			book := in.Book(n)
			for i, rows := range [][][]json.Number{line.B, line.A} {
				if line.R {
					sides[i] = map[string]string{}
				}
				for _, row := range rows {
					sides[i][row[0].String()] = string(join(row[1:]))
					if row[1] == "0" {
						delete(sides[i], row[0].String())
					}
				}
				want := [][]Level{book.Bids, book.Asks}[i]
				if len(want) != len(sides[i]) || len(want) == 0 {
					t.Fatalf("%s: book %d has %v, the lines lead to %v", in.ID, n, want, sides[i])
				}
				for _, row := range in.levels(want) {
					if sides[i][row[0].String()] != string(join(row[1:])) {
						t.Fatalf("%s: book %d has %v, the lines lead to %v", in.ID, n, row, sides[i])
					}
				}
			}
			if book.Bids[0].P >= book.Asks[0].P {
				t.Fatalf("%s: book %d is crossed", in.ID, n)
			}
		}
	}
}

func join(row []json.Number) []byte {
	var list [][]byte
	for _, n := range row {
		list = append(list, []byte(n))
	}
	return bytes.Join(list, []byte(" "))
}

func TestDecimals(t *testing.T) {
	for _, c := range []struct {
		v        int64
		decimals int
		want     string
	}{{0, 2, "0"}, {5, 2, "0.05"}, {-150, 2, "-1.5"}, {705000, 2, "7050"}, {7, 0, "7"}} {
		if have := Decimal(c.v, c.decimals); have != c.want {
			t.Errorf("%d with %d decimals is %s", c.v, c.decimals, have)
		}
	}
	for _, c := range []struct {
		n, d  int64
		limit int
		want  string
	}{
		{1, 3, 8, "0.33333333"}, {2, 3, 8, "0.66666667"}, {10_000, 3, 8, "3333.33333333"}, {1, 8, 2, "0.12"}, {3, 8, 2, "0.38"},
		{1_234_567_890_123_456, 1, 0, "1234567890123460"}, {1_234_567_890_123_455, 1, 0, "1234567890123460"},
		{1_234_567_890_123_445, 1, 0, "1234567890123440"}, {12_345_678_901_234_567, 10, 8, "1234567890123460"},
	} {
		if have := rounded(big.NewInt(c.n), big.NewInt(c.d), c.limit); have != c.want {
			t.Errorf("%d / %d is %s, not %s", c.n, c.d, have, c.want)
		}
	}
}

// TestFigures counts summaries and bars a second time, over the midnight at which a day begins.
func TestFigures(t *testing.T) {
	in := newMarket().Instruments[0]
	const end = 5_000 // two minutes
	tally := func(events int64, from, to time.Time) (count, volume, turnover int64) {
		now := map[int64][2]int64{}
		for e := range events {
			if in.Channel(e) != ChannelTrades {
				continue
			}
			tr := in.Trade(e)
			at := in.Time(tr.Of)
			if at.Before(from) || !at.Before(to) {
				continue
			}
			if _, there := now[tr.Of]; tr.Kind == 'X' {
				delete(now, tr.Of)
			} else if tr.Kind == 'T' || there {
				now[tr.Of] = [2]int64{tr.P, tr.Z}
			}
		}
		for _, v := range now {
			count, volume, turnover = count+1, volume+v[1], turnover+v[0]*v[1]
		}
		return count, volume, turnover
	}
	same := func(f Figures, count, volume, turnover int64) bool {
		return f.TC == Decimal(count, 0) && f.TV == Decimal(volume, in.SizeDecimals) && f.EV == Decimal(turnover, in.PriceDecimals+in.SizeDecimals)
	}
	for e := int64(1); e < end; e += 13 {
		if c := in.Channel(e); c != ChannelTrades && c != ChannelFigures {
			continue
		}
		day := in.Time(e).Truncate(24 * time.Hour)
		if c, v, w := tally(e+1, day, day.Add(24*time.Hour)); !same(in.Summary(e).Figures, c, v, w) {
			t.Fatalf("event %d: %+v, counted %d %d %d", e, in.Summary(e), c, v, w)
		}
	}
	for at := in.Time(0).Truncate(time.Second); at.Before(in.Time(end - 1).Add(-time.Second)); at = at.Add(7 * time.Second) {
		list := in.Bar(at, time.Second, end)
		if c, v, w := tally(end, at, at.Add(time.Second)); len(list) == 0 && c != 0 || len(list) > 0 && !same(list[len(list)-1], c, v, w) {
			t.Fatalf("%v: %+v, counted %d %d %d", at, list, c, v, w)
		}
	}
}
