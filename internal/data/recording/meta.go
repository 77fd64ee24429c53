package recording

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Version is the newest version of the format, which Writer writes.
const Version = 1

const formatName = "recording"

// magic is the beginning of the text of every recording.
const magic = `{"rueda":"` + formatName + `"`

// Is reports whether a decompressed text that begins with begin is a recording.
func Is(begin []byte) bool { return bytes.HasPrefix(begin, []byte(magic)) }

// Meta is the first line of a recording. It describes the content.
type Meta struct {
	Format      string    `json:"rueda"` // "recording"
	Version     int       `json:"version"`
	Program     string    `json:"program,omitempty"` // name of the recorder
	Server      string    `json:"server,omitempty"`
	Began       time.Time `json:"began"`
	Epoch       string    `json:"epoch,omitempty"` // epoch at the beginning
	Channels    []string  `json:"channels"`        // requested channels, by their names on the wire
	Depth       int       `json:"depth"`           // of the books; 0: all levels
	Intervals   []string  `json:"intervals,omitempty"`
	IDs         []string  `json:"ids"`                // requested identifiers and patterns
	Markets     []Row     `json:"markets,omitempty"`  // from GET /market/markets
	Calendar    []Row     `json:"calendar,omitempty"` // from GET /market/calendar
	Instruments []Row     `json:"instruments,omitempty"`
}

// Row is a row of a list as the server sent it, usually the definition of an instrument.
type Row = json.RawMessage

// Note is a line written by the recorder itself.
type Note struct {
	Kind        string `json:"recording"`
	Server      string `json:"server,omitempty"`
	Reason      string `json:"reason,omitempty"`
	Channel     string `json:"channel,omitempty"`
	Instrument  string `json:"instrument,omitempty"`
	From        uint64 `json:"from,omitempty"` // first missing N; 0: unknown
	To          uint64 `json:"to,omitempty"`   // last missing N; 0: unknown
	Rows        int64  `json:"rows,omitempty"`
	Instruments []Row  `json:"instruments,omitempty"`
}

// Parse parses a note.
func (n *Note) Parse(line []byte) error {
	if err := json.Unmarshal(line, n); err != nil {
		return fmt.Errorf("read a note: %w", err)
	}
	return nil
}

// Kinds of notes.
const (
	Connected    = "connected"    // Server; Instruments with new or changed definitions
	Disconnected = "disconnected" // Reason
	Lost         = "lost"         // Channel, Instrument, From, To, Reason
	End          = "end"          // Rows; the recorder ended normally
)

func parseMeta(line []byte) (*Meta, error) {
	if !Is(line) {
		return nil, errForeign
	}
	var m Meta
	if err := json.Unmarshal(line, &m); err != nil {
		return nil, fmt.Errorf("its first line: %w", err)
	}
	if m.Version < 1 || m.Version > Version {
		return nil, fmt.Errorf("it has version %d of the format, but this program reads 1 to %d: use a newer version", m.Version, Version)
	}
	return &m, nil
}

// maxDefinitionErrors is the number of errors of definitions that are described; the others are
// counted.
const maxDefinitionErrors = 5

// maxDefinition is how many values the definition of an instrument may have.
const maxDefinition = 1 << 16

// Definitions parses rows of GET /market/instruments. It returns the valid ones, and one error for
// all others.
func Definitions(rows []Row) ([]market.Instrument, error) {
	var list []market.Instrument
	var errs []error
	more := 0
	for i, row := range rows {
		in, err := definition(row)
		switch {
		case err == nil:
			list = append(list, *in)
		case len(errs) < maxDefinitionErrors:
			errs = append(errs, fmt.Errorf("definition %d: %w", i+1, err))
		default:
			more++
		}
	}
	if more > 0 {
		errs = append(errs, fmt.Errorf("and %d more", more))
	}
	return list, errors.Join(errs...)
}

// definition converts a row to a line F of a feed, which has the same members, and decodes that.
func definition(row []byte) (*market.Instrument, error) {
	if bytes.Count(row, []byte{','}) > maxDefinition {
		return nil, fmt.Errorf("more than %d values", maxDefinition)
	}
	v, err := wire.ParseJSON(row)
	if err != nil {
		return nil, err
	}
	id := v.Get("instrument")
	if id.Kind != wire.String {
		return nil, errors.New("no member instrument")
	}
	b := append([]byte(nil), `{"type":"F","I":`...)
	b = append(b, id.Raw...)
	for i := range v.Fields {
		f := &v.Fields[i]
		switch f.Name {
		case "instrument", "type", "I", "S", "symbol", "market", "term", "channels", "no_book":
			continue
		case "status":
			if p, ok := market.ParsePhase(f.Value.Text); !ok || p.OfFeed() {
				continue
			}
		}
		b = append(wire.AppendString(append(b, ','), f.Name), ':')
		b = append(b, f.Value.Raw...)
	}
	if channels := v.Get("channels"); channels.Kind == wire.Array && !lists(channels.Items, "order_book") {
		b = append(b, `,"no_book":true`...)
	}
	var line wire.Line
	if fault := new(wire.LineDecoder).Decode(append(b, '}'), &line); fault != nil {
		return nil, fmt.Errorf("%.100s: %.500s", id.Text, strings.TrimSpace(fault.Msg))
	}
	return line.Definition, nil
}

func lists(items []wire.Value, word string) bool {
	for i := range items {
		if items[i].Text == word {
			return true
		}
	}
	return false
}
