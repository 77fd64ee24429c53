package export

import (
	"io"
	"math"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
	"github.com/parquet-go/parquet-go/format"

	"github.com/ruedahq/rueda/internal/journal"
)

// Sizes of Parquet files, in rows. A row group is what readers skip or take whole, and what
// the writer keeps in memory. Those of depth are larger: each has all instruments,
// and so the pages of one instrument do not become too small.
const (
	groupRows = 128 << 10
	depthRows = 256 << 10
	batchRows = 1024
)

// parquetTable writes rows of type R, which has the columns as tagged fields.
type parquetTable[R any] struct {
	w     *parquet.GenericWriter[R]
	rows  []R // a batch
	n     int // of them are filled
	fill  func(*R, *listing, string, *journal.Row, bool) zeros
	zeros [maxZeros]int // columns, by the bits of zeros
}

// zeros marks columns of a row that hold the number 0 where the writer, which takes the
// zero value of a field for no value, would write none: a bid of price 0 is a bid.
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
		// Bounds of pages stand in the page index; once more in each page's header
		// they would be worked out twice.
		parquet.DataPageStatistics(false),
	}
	for _, name := range []string{"market", "term", "epoch", "kind", "side", "interval"} {
		// Every page has nearly all of their values.
		options = append(options, parquet.SkipPageBounds(name))
	}
	for _, name := range decimals(schema) {
		// The library orders decimals by their bytes without looking at the sign. A
		// least value that is wrong would hide rows from readers.
		options = append(options, parquet.SkipPageBounds(name))
	}
	p := &parquetTable[R]{w: parquet.NewGenericWriter[R](w, options...), rows: make([]R, batchRows), fill: fill}
	// The first Write makes the columns, and what WriteRows put into others before it would
	// be lost. A row that is written and taken back makes them now; it fails nowhere,
	// since nothing leaves the memory.
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

// filled takes the row behind the batch into it.
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

// single writes the row behind the batch, value by value.
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

func (p *parquetTable[R]) close() error {
	if err := p.flush(); err != nil {
		return err
	}
	return p.w.Close()
}

// decimals are the decimal columns of a schema.
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
