package dbn

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/ruedahq/rueda/internal/data/replay/decode"
)

// schema is the content of a file.
type schema uint16

const (
	schemaMBO    schema = 0
	schemaMBP1   schema = 1
	schemaMBP10  schema = 2
	schemaTBBO   schema = 3
	schemaTrades schema = 4
	schemaStatus schema = 11
	schemaMixed  schema = math.MaxUint16
)

// Kinds of symbols.
const (
	byNumber = 0
	bySymbol = 1
)

// header is the decoded header of a file.
type header struct {
	version byte
	venue   string
	schema  schema
	extra   int               // bytes after each record: the send time
	names   map[uint32][]name // by the beginning of their days
	rows    int               // of all names
}

// name is the symbol of an instrument for a number of days.
type name struct {
	from, to int64 // Unix ns; to is exclusive
	symbol   string
}

// Sizes and positions in the header.
const (
	magicSize  = 8 // "DBN", version, length of the rest
	fixedSize  = 100
	maxHeader  = 64 << 20 // a hundred thousand symbols over a year
	maxNames   = 1 << 20
	oldSymbol  = 22
	maxSymbol  = 1 << 10
	schemaAt   = 16
	namesAt    = 42 // in version 1 it is 50, after the number of records
	symbolAt   = 45 // length of symbols, from version 2
	oldNamesAt = 50
)

// Sniff reports whether data is the beginning of a DBN file.
func Sniff(data []byte) bool {
	return len(data) >= 4 && string(data[:3]) == "DBN"
}

// readHeader parses the header of a file. n is 0 if data is incomplete.
func readHeader(data []byte) (h *header, n int, err error) {
	if len(data) < magicSize {
		return nil, 0, nil
	}
	if !Sniff(data) {
		return nil, 0, errors.New("no DBN file")
	}
	h = &header{version: data[3]}
	if h.version < 1 || h.version > 3 {
		return nil, 0, fmt.Errorf("DBN version %d; versions 1 to 3 are known", h.version)
	}
	size := int(binary.LittleEndian.Uint32(data[4:]))
	if size < fixedSize+5*4 || size > maxHeader {
		return nil, 0, fmt.Errorf("a header of %d bytes", size)
	}
	if len(data) < magicSize+size {
		return nil, 0, nil
	}
	if err := h.read(data[magicSize : magicSize+size]); err != nil {
		return nil, 0, fmt.Errorf("header: %w", err)
	}
	return h, magicSize + size, nil
}

func (h *header) read(data []byte) error {
	venue, _, _ := bytes.Cut(data[:schemaAt], []byte{0})
	venue, _, _ = bytes.Cut(venue, []byte("."))
	h.venue = decode.Symbol(venue)
	h.schema = schema(binary.LittleEndian.Uint16(data[schemaAt:]))
	at, width := namesAt, oldSymbol
	if h.version == 1 {
		at = oldNamesAt
	} else if width = int(binary.LittleEndian.Uint16(data[symbolAt:])); width == 0 || width > maxSymbol {
		return fmt.Errorf("symbols of %d bytes", width)
	}
	in, out := data[at], data[at+1]
	if data[at+2] != 0 {
		h.extra = 8
	}
	r := cutter{data: data[fixedSize:], width: width}
	if n := r.count(); n != 0 {
		return errors.New("a definition of the schema, which no version has")
	}
	for range 3 { // symbols requested, partly found, not found
		r.skip(r.count(), width)
	}
	h.names = make(map[uint32][]name)
	for range r.count() {
		raw := r.symbol()
		for range r.count() {
			from, to := r.date(), r.date()
			h.name(in, out, raw, r.symbol(), from, to)
			if h.rows++; h.rows > maxNames {
				return fmt.Errorf("more than %d rows of symbols", maxNames)
			}
			if r.short {
				break
			}
		}
		if r.short {
			break
		}
	}
	for _, names := range h.names {
		slices.SortStableFunc(names, func(a, b name) int { return cmp.Compare(a.from, b.from) })
	}
	if r.short {
		return errors.New("ends within the symbols")
	}
	return r.bad
}

// name stores a row of the mapping if one side of it is the instrument's number.
func (h *header) name(in, out byte, raw, mapped []byte, from, to int64) {
	number, symbol := mapped, raw
	switch {
	case out == byNumber:
	case in == byNumber:
		number, symbol = raw, mapped
	default:
		return
	}
	id, err := strconv.ParseUint(string(number), 10, 32)
	if s := decode.Symbol(symbol); err == nil && s != "" {
		h.names[uint32(id)] = append(h.names[uint32(id)], name{from, to, s})
	}
}

// cutter parses the lists of a header. Once data is missing, short stays set.
type cutter struct {
	data  []byte
	width int
	short bool
	bad   error
}

func (r *cutter) next(n int) []byte {
	if n > len(r.data) {
		r.short, r.data = true, nil
		return nil
	}
	t := r.data[:n]
	r.data = r.data[n:]
	return t
}

// count returns a number of entries. It returns 0 if the rest cannot hold so many.
func (r *cutter) count() int {
	t := r.next(4)
	if t == nil {
		return 0
	}
	n := int(binary.LittleEndian.Uint32(t))
	if n > len(r.data) {
		r.short = true
		return 0
	}
	return n
}

func (r *cutter) skip(n, width int) { r.next(n * width) }

func (r *cutter) symbol() []byte {
	s, _, _ := bytes.Cut(r.next(r.width), []byte{0})
	return s
}

// date returns the beginning of a day, in Unix nanoseconds.
func (r *cutter) date() int64 {
	t := r.next(4)
	if t == nil {
		return 0
	}
	n := int(binary.LittleEndian.Uint32(t))
	y, m, d := n/10_000, n/100%100, n%100
	day := time.Date(y, time.Month(m), d, 0, 0, 0, 0, time.UTC)
	if y < 1970 || y > 2200 || m < 1 || m > 12 || day.Day() != d {
		if r.bad == nil {
			r.bad = fmt.Errorf("%d is no date", n)
		}
		return 0
	}
	return day.UnixNano()
}

// find returns the symbol of an instrument at a time, and until when it is valid. A record of
// another day than those of the names has the closest earlier symbol, or else the first one.
func (h *header) find(id uint32, t int64) (symbol string, until int64) {
	names := h.names[id]
	later, _ := slices.BinarySearchFunc(names, t, func(n name, t int64) int {
		if n.from <= t {
			return -1
		}
		return 1
	})
	until = math.MaxInt64
	if later < len(names) {
		until = names[later].from
	}
	if len(names) == 0 {
		return "", until
	}
	n := &names[max(0, later-1)]
	if n.from <= t && t < n.to {
		until = min(until, n.to)
	}
	return n.symbol, until
}

// term returns the settlement term and the kind of the dataset's instruments.
func (h *header) term() (term, kind string) {
	switch h.venue {
	case "XNAS", "XBOS", "XPSX", "XNYS", "XASE", "XCHI", "XCIS", "ARCX", "BATS", "BATY", "EDGA", "EDGX",
		"IEXG", "MEMX", "EPRL", "LTSE", "DBEQ", "EQUS", "OTCX", "NYSE":
		return "24hs", "equity"
	case "GLBX", "IFEU", "IFUS", "IFLL", "NDEX", "XEUR", "XEEE", "XCBF":
		return "FUT", "future"
	case "OPRA":
		return "OPT", "option"
	}
	return "SPOT", ""
}
