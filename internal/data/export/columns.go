package export

import (
	"time"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

// head holds the columns that all tables have: event time, time of publication, instrument, and
// number in its sequence.
type head struct {
	TS         int64  `parquet:"ts,timestamp(nanosecond:local),delta"`
	Published  int64  `parquet:"published,timestamp(nanosecond:local),delta"`
	Instrument string `parquet:"instrument,dict"`
	Symbol     string `parquet:"symbol,dict"`
	Market     string `parquet:"market,dict"`
	Term       string `parquet:"term,dict"`
	Seq        int64  `parquet:"seq,delta"`
	Epoch      string `parquet:"epoch,dict"`
}

func headOf(in *listing, epoch string, n uint64, time, at int64) head {
	return head{TS: time, Published: at, Instrument: in.name, Symbol: in.ID.Symbol, Market: in.ID.Market,
		Term: in.ID.Term, Seq: int64(n), Epoch: epoch}
}

func zeroBit(bit int, is bool) zeros {
	if is {
		return 1 << bit
	}
	return 0
}

// quoteRow is a row of the table quotes.
type quoteRow struct {
	head
	BidPrice  decimal `parquet:"bid_price,optional,decimal(8:38),dict"`
	BidSize   decimal `parquet:"bid_size,optional,decimal(8:38),dict"`
	BidOrders int64   `parquet:"bid_orders,optional,dict"`
	AskPrice  decimal `parquet:"ask_price,optional,decimal(8:38),dict"`
	AskSize   decimal `parquet:"ask_size,optional,decimal(8:38),dict"`
	AskOrders int64   `parquet:"ask_orders,optional,dict"`
}

func fillQuote(q *quoteRow, in *listing, epoch string, r *journal.Row, _ bool) (zero zeros) {
	*q = quoteRow{head: headOf(in, epoch, r.N, r.Time, r.At)}
	if l, ok := top(r.Bids); ok {
		q.BidPrice, q.BidSize, q.BidOrders = decimalOf(int64(l.Price)), decimalOf(int64(l.Size)), int64(l.Orders)
		zero |= zeroBit(0, l.Price == 0)
	}
	if l, ok := top(r.Asks); ok {
		q.AskPrice, q.AskSize, q.AskOrders = decimalOf(int64(l.Price)), decimalOf(int64(l.Size)), int64(l.Orders)
		zero |= zeroBit(1, l.Price == 0)
	}
	return zero
}

// barRow is a row of the table bars. A bar whose trades were all cancelled has no prices.
type barRow struct {
	head
	Interval string  `parquet:"interval,dict"`
	Open     decimal `parquet:"open,optional,decimal(8:38),dict"`
	High     decimal `parquet:"high,optional,decimal(8:38),dict"`
	Low      decimal `parquet:"low,optional,decimal(8:38),dict"`
	Close    decimal `parquet:"close,optional,decimal(8:38),dict"`
	Volume   decimal `parquet:"volume,decimal(8:38),dict"`
	Turnover decimal `parquet:"turnover,decimal(16:38)"`
	VWAP     decimal `parquet:"vwap,optional,decimal(8:38),dict"`
	Trades   int64   `parquet:"trades,dict"`
	Revised  bool    `parquet:"revised"`
	Date     int32   `parquet:"trading_date,optional,date,dict"`
}

// daysOf returns the days from 1970 to a date, 0 for no date.
func daysOf(d market.Date) int32 {
	if d == 0 {
		return 0
	}
	return int32(d.Start(time.UTC).Unix() / (dayLong / 1e9))
}

func fillBar(b *barRow, in *listing, epoch string, r *journal.Row, _ bool) (zero zeros) {
	k := &r.Bar
	*b = barRow{head: headOf(in, epoch, r.N, r.Time, r.At), Interval: k.Interval.String(), Volume: decimalOfSum(k.Volume),
		Turnover: decimalOfSum(k.Value), Trades: int64(k.Trades), Revised: k.Revised, Date: daysOf(in.date(r.Time))}
	if k.Trades > 0 {
		for i, to := range [...]*decimal{&b.Open, &b.High, &b.Low, &b.Close} {
			p := [...]market.Price{k.First, k.High, k.Low, k.Last}[i]
			*to = decimalOf(int64(p))
			zero |= zeroBit(i, p == 0)
		}
	}
	if p, ok := vwapOf(k); ok {
		b.VWAP = decimalOf(int64(p))
		zero |= zeroBit(4, p == 0)
	}
	return zero
}

// depthRow is a row of the table depth.
type depthRow struct {
	head
	Kind   string  `parquet:"kind,dict"`
	Side   string  `parquet:"side,optional,dict"`
	Price  decimal `parquet:"price,optional,decimal(8:38),dict"`
	Size   decimal `parquet:"size,decimal(8:38),dict"`
	Orders int64   `parquet:"orders,optional,dict"`
}

// level is a row of depth that waits for its row group.
type level struct {
	market.Level
	in       *listing
	epoch    string
	n        uint64
	time, at int64
	kind     journal.Kind
	side     market.Side
}

// depthTable is the table depth. It receives rows in the order of the stream and sorts each row
// group by instrument; it preserves the order within an instrument.
type depthTable struct {
	rows   *parquetTable[depthRow]
	levels []level
	ranks  []int // by order of instrument
	sorted []int32
}

func (d *depthTable) put(in *listing, epoch string, r *journal.Row, _ bool) error {
	eachLevel(r, func(side market.Side, l market.Level) {
		d.levels = append(d.levels, level{l, in, epoch, r.N, r.Time, r.At, r.Kind, side})
	})
	if len(d.levels) < depthRows {
		return nil
	}
	return d.group()
}

// group writes the waiting rows as a row group.
func (d *depthTable) group() error {
	// Counting sort: first where the rows of each instrument begin, then their positions.
	clear(d.ranks)
	for i := range d.levels {
		at := d.levels[i].in.order + 1
		for len(d.ranks) <= at {
			d.ranks = append(d.ranks, 0)
		}
		d.ranks[at]++
	}
	for i := 1; i < len(d.ranks); i++ {
		d.ranks[i] += d.ranks[i-1]
	}
	d.sorted = append(d.sorted[:0], make([]int32, len(d.levels))...)
	for i := range d.levels {
		rank := &d.ranks[d.levels[i].in.order]
		d.sorted[*rank] = int32(i)
		*rank++
	}
	for _, i := range d.sorted {
		if err := d.rows.filled(fillLevel(&d.rows.rows[d.rows.n], &d.levels[i])); err != nil {
			return err
		}
	}
	clear(d.levels)
	d.levels = d.levels[:0]
	if err := d.rows.flush(); err != nil {
		return err
	}
	return d.rows.w.Flush()
}

func fillLevel(row *depthRow, l *level) zeros {
	*row = depthRow{head: headOf(l.in, l.epoch, l.n, l.time, l.at), Kind: kindWord(l.kind)}
	if l.side == market.NoSide {
		return 0
	}
	row.Side, row.Price, row.Size, row.Orders = sideWord(l.side), decimalOf(int64(l.Price)), decimalOf(int64(l.Size)), int64(l.Orders)
	return zeroBit(0, l.Price == 0)
}

func (d *depthTable) close(lost []Lost) error {
	if err := d.group(); err != nil {
		return err
	}
	return d.rows.close(lost)
}
