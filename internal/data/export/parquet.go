package export

import (
	"io"
	"math"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
	"github.com/parquet-go/parquet-go/format"

	"github.com/ruedahq/rueda/internal/engine/journal"
)

// Sizes of Parquet files, in rows. Readers skip or read whole row groups, and the writer keeps one
// in memory. Row groups of depth are larger, because each has all instruments, and the pages of one
// instrument should not be too small.
const (
	groupRows = 128 << 10
	depthRows = 256 << 10
	batchRows = 1024
)

// parquetTable writes rows of type R, whose tagged fields are the columns.
type parquetTable[R any] struct {
	w     *parquet.GenericWriter[R]
	rows  []R // a batch
	n     int // number of filled rows
	fill  func(*R, *listing, string, *journal.Row, bool) zeros
	zeros [maxZeros]int // columns, by the bits of zeros
}

// zeros marks columns of a row that contain the number 0. The writer treats the zero value of a
// field as null, but a bid of price 0 is not null.
type zeros uint8

const maxZeros = 8

func newParquet(w io.Writer, t Type) table {
	switch t {
	case Quotes:
		return newParquetTable(w, t, fillQuote, groupRows, "bid_price", "ask_price")
	case Bars:
		return newParquetTable(w, t, fillBar, groupRows, "open", "high", "low", "close", "vwap")
	case Depth:
		return &depthTable{rows: newParquetTable[depthRow](w, t, nil, math.MaxInt64, "price")}
	}
	return newParquetTable(w, t, fillTrade, groupRows, "old_price", "old_size")
}

func newParquetTable[R any](w io.Writer, t Type, fill func(*R, *listing, string, *journal.Row, bool) zeros,
	group int64, nullable ...string) *parquetTable[R] {
	var model R
	schema := parquet.SchemaOf(model)
	options := []parquet.WriterOption{
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedDefault}), // level 3
		parquet.MaxRowsPerRowGroup(group),
		parquet.BloomFilters(parquet.SplitBlockFilter(10, "instrument")),
		parquet.SortingWriterConfig(parquet.SortingColumns(parquet.Ascending("instrument"))),
		parquet.KeyValueMetadata("rueda.table", t.String()),
		// The page index has the bounds of pages; page headers would only repeat the work.
		parquet.DataPageStatistics(false),
	}
	for _, name := range []string{"market", "term", "epoch", "kind", "side", "interval"} {
		// Every page has nearly all of their values.
		options = append(options, parquet.SkipPageBounds(name))
	}
	for _, name := range decimals(schema) {
		// The library compares decimals by their bytes and ignores the sign. A wrong minimum would
		// hide rows from readers.
		options = append(options, parquet.SkipPageBounds(name))
	}
	p := &parquetTable[R]{w: parquet.NewGenericWriter[R](w, options...), rows: make([]R, batchRows), fill: fill}
	// The first Write creates the columns and would discard earlier results of WriteRows. Writing
	// and discarding a row creates them now; it cannot fail, because nothing leaves the memory.
	_, _ = p.w.Write(p.rows[:1])
	p.w.Reset(w)
	for i, name := range nullable {
		leaf, _ := schema.Lookup(name)
		p.zeros[i] = leaf.ColumnIndex
	}
	return p
}

func (p *parquetTable[R]) put(in *listing, epoch string, r *journal.Row, final bool) error {
	return p.filled(p.fill(&p.rows[p.n], in, epoch, r, final))
}

// filled adds the row after the batch to it.
func (p *parquetTable[R]) filled(zero zeros) error {
	if zero != 0 {
		return p.single(zero)
	}
	if p.n++; p.n == len(p.rows) {
		return p.flush()
	}
	return nil
}

func (p *parquetTable[R]) flush() error {
	_, err := p.w.Write(p.rows[:p.n])
	p.n = 0
	return err
}

// single writes the row after the batch, value by value.
func (p *parquetTable[R]) single(zero zeros) error {
	n := p.n
	if err := p.flush(); err != nil {
		return err
	}
	row := p.w.Schema().Deconstruct(nil, &p.rows[n])
	for i, column := range p.zeros {
		for k := range row {
			if zero>>i&1 == 1 && row[k].Column() == column {
				none := decimal{}
				row[k] = parquet.FixedLenByteArrayValue(none[:]).Level(0, 1, column)
			}
		}
	}
	_, err := p.w.WriteRows([]parquet.Row{row})
	return err
}

func (p *parquetTable[R]) close(lost []Lost) error {
	if err := p.flush(); err != nil {
		return err
	}
	if len(lost) > 0 {
		p.w.SetKeyValueMetadata("rueda.lost", string(AppendLost(nil, lost, 0)))
	}
	return p.w.Close()
}

// decimals returns the decimal columns of a schema.
func decimals(schema *parquet.Schema) (names []string) {
	for _, f := range schema.Fields() {
		if !f.Leaf() {
			continue
		}
		if logical := f.Type().LogicalType(); logical != nil {
			if _, ok := logical.Value.(*format.DecimalType); ok {
				names = append(names, f.Name())
			}
		}
	}
	return names
}
