package export

import (
	"strconv"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/wire"
)

// tradeColumns holds the columns of the table trades after those that all tables have.
const tradeColumns = ",kind,final,price,size,side,trade_id,ref_seq,old_price,old_size,conditions"

// tradeRow is a row of the table trades. An optional field with the value zero is null.
type tradeRow struct {
	head
	Kind       string   `parquet:"kind,dict"`
	Final      bool     `parquet:"final"`
	Price      decimal  `parquet:"price,decimal(8:38),dict"`
	Size       decimal  `parquet:"size,decimal(8:38),dict"`
	Side       string   `parquet:"side,optional,dict"`
	TradeID    string   `parquet:"trade_id,optional,delta"`
	RefSeq     int64    `parquet:"ref_seq,optional,delta"`
	OldPrice   decimal  `parquet:"old_price,optional,decimal(8:38),dict"`
	OldSize    decimal  `parquet:"old_size,optional,decimal(8:38),dict"`
	Conditions []string `parquet:"conditions,list"`
}

// fillTrade sets the row of a trade, a cancel or a correction. zero has the optional columns whose
// value is 0 and not null.
func fillTrade(t *tradeRow, in *listing, epoch string, r *journal.Row, final bool) (zero zeros) {
	*t = tradeRow{head: headOf(in, epoch, r.N, r.Time, r.At), Kind: kindWord(r.Kind), Final: final,
		Price: decimalOf(int64(r.Price)), Size: decimalOf(int64(r.Size)), Side: sideWord(r.Side),
		TradeID: r.ID, RefSeq: int64(r.RefN), Conditions: append(t.Conditions[:0], r.Conditions...)}
	if r.Kind == journal.Correct {
		t.OldPrice, t.OldSize = decimalOf(int64(r.OldPrice)), decimalOf(int64(r.OldSize))
		zero = zeroBit(0, r.OldPrice == 0) | zeroBit(1, r.OldSize == 0)
	}
	return zero
}

// appendTradeCells appends the cells of a trade. final is the cell of that column with its comma,
// or "" for a table without it.
func appendTradeCells(b []byte, r *journal.Row, final string) []byte {
	b = append(b, kindWord(r.Kind)...)
	b = append(b, ',')
	b = append(b, final...)
	b = r.Price.Append(b)
	b = append(b, ',')
	b = r.Size.Append(b)
	b = append(b, ',')
	b = append(b, sideWord(r.Side)...)
	b = append(b, ',')
	b = appendCell(b, r.ID)
	b = append(b, ',')
	if r.RefN > 0 {
		b = strconv.AppendUint(b, r.RefN, 10)
	}
	b = append(b, ',')
	if r.Kind == journal.Correct {
		b = r.OldPrice.Append(b)
		b = append(b, ',')
		b = r.OldSize.Append(b)
		b = append(b, ',')
	} else {
		b = append(b, ",,"...)
	}
	if len(r.Conditions) > 0 {
		b = appendCell(b, string(wire.AppendStrings(nil, r.Conditions)))
	}
	return append(b, '\n')
}
