package verify

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Check is one kind of check.
type Check uint8

// Checks.
const (
	Message Check = iota // invalid messages of the protocol, or events that break the contract
	Chain                // book updates follow each other; events without a gap
	// levels are best first, each price once, and only existing levels are deleted
	Levels
	Checksum  // K of a book message matches the book
	Crossed   // the best bid is below the best ask, outside auctions
	Quote     // quotes are the top of the book
	Orders    // order events refer to existing orders
	Sequence  // N has no gaps, except those of books and of conflated quotes and summaries
	Reference // cancellations and corrections refer to their trade, and trade ids rise
	Bars      // bars equal the sum of their trades, and come once and when they should
	Summary   // summaries follow from the one before and the trades since
	Aggressor // buyers trade at the ask, and sellers at the bid
	Time      // times do not go back within a channel
	Records   // records of a file in another format can be used
	numChecks
)

var checkWords = [numChecks]string{
	"message", "chain", "levels", "checksum", "crossed", "quote", "orders", "sequence", "reference", "bars", "summary", "aggressor", "time", "records",
}

// String returns the check's word in reports.
func (c Check) String() string {
	if c < numChecks {
		return checkWords[c]
	}
	return "unknown"
}

// MarshalText implements encoding.TextMarshaler. It returns the check's word.
func (c Check) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Position is a position in a stream.
type Position struct {
	Line int64  // of a recording, or the number of the event, from 1; 0: unknown
	N    uint64 // 0: none
	Time int64  // T, Unix ns; 0: none
}

// Finding is one inconsistency.
type Finding struct {
	Check      Check
	Position   Position
	Instrument string
	Text       string
}

// MarshalJSON implements json.Marshaler. It omits unknown members.
func (f Finding) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Check      Check  `json:"check"`
		Line       int64  `json:"line,omitempty"`
		Instrument string `json:"instrument,omitempty"`
		N          uint64 `json:"n,omitempty"`
		Time       string `json:"time,omitempty"`
		Text       string `json:"text"`
	}{f.Check, f.Position.Line, f.Instrument, f.Position.N, clock(f.Position.Time), f.Text})
}

// Result is the result of one check.
type Result struct {
	Check    Check     `json:"check"`
	Judged   uint64    `json:"judged"`
	Wrong    uint64    `json:"wrong"`
	Unjudged uint64    `json:"unjudged,omitempty"` // for lack of data to compare with
	Findings []Finding `json:"findings,omitempty"` // the first findings
}

// Figure is a further number of a report.
type Figure struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
}

// String returns the number with its name, in the singular for 1.
func (f Figure) String() string {
	name := f.Name
	if f.Value == 1 {
		switch name {
		case "statuses":
			name = "status"
		case "summaries":
			name = "summary"
		case applied:
			name = "book change applied"
		case sameID:
			name = "book equal to the quote of the same update id"
		default:
			name = strings.TrimSuffix(name, "s")
		}
	}
	return group(f.Value) + " " + name
}

// Report is the result of a verification.
type Report struct {
	Source      string   `json:"source"`      // what was verified
	Format      string   `json:"format"`      // its format
	Unit        string   `json:"unit"`        // what a position counts: line, event or row
	Instruments int      `json:"instruments"` // instruments with data
	Figures     []Figure `json:"figures"`
	Checks      []Result `json:"checks"` // checks with something to judge
	NotJudged   []Check  `json:"not_judged,omitempty"`
	Notes       []string `json:"notes,omitempty"`
	Hash        string   `json:"hash,omitempty"` // of a journal: SHA-256 of the content of its rows
}

// Wrong returns the total number of findings.
func (r *Report) Wrong() (n uint64) {
	for i := range r.Checks {
		n += r.Checks[i].Wrong
	}
	return n
}

// Good reports whether there was something to check and nothing was wrong.
func (r *Report) Good() bool { return len(r.Checks) > 0 && r.Wrong() == 0 }

// Figure returns a number by its name, 0 if there is none.
func (r *Report) Figure(name string) uint64 {
	for _, f := range r.Figures {
		if f.Name == name {
			return f.Value
		}
	}
	return 0
}

// Result returns the result of a check.
func (r *Report) Result(c Check) Result {
	for i := range r.Checks {
		if r.Checks[i].Check == c {
			return r.Checks[i]
		}
	}
	return Result{Check: c}
}

// WriteJSON writes the report as one line with a JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	type plain Report // without methods
	b, err := json.Marshal(struct {
		*plain
		Good bool `json:"good"`
	}{(*plain)(r), r.Good()})
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// WriteText writes the report as text.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", r.Source, r.Format)
	b.WriteString("  " + Figure{"instruments", uint64(r.Instruments)}.String())
	for _, f := range r.Figures {
		b.WriteString(", " + f.String())
	}
	b.WriteString("\n")
	if len(r.Checks) > 0 {
		fmt.Fprintf(&b, "  %-10s %14s %10s %10s\n", "check", "judged", "wrong", "unjudged")
	}
	for i := range r.Checks {
		c := &r.Checks[i]
		fmt.Fprintf(&b, "  %-10s %14s %10s %10s\n", c.Check, group(c.Judged), group(c.Wrong), group(c.Unjudged))
	}
	if len(r.Checks) > 0 && len(r.NotJudged) > 0 {
		words := make([]string, len(r.NotJudged))
		for i, c := range r.NotJudged {
			words[i] = c.String()
		}
		b.WriteString("  not judged: " + strings.Join(words, ", ") + "\n")
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "  note: %s\n", note)
	}
	for i := range r.Checks {
		c := &r.Checks[i]
		for j := range c.Findings {
			fmt.Fprintf(&b, "  %s: %s\n", c.Check, c.Findings[j].line(r.Unit))
		}
		if more := c.Wrong - uint64(len(c.Findings)); more > 0 && len(c.Findings) > 0 {
			fmt.Fprintf(&b, "  %s: and %s more\n", c.Check, group(more))
		}
	}
	if r.Hash != "" {
		fmt.Fprintf(&b, "  SHA-256 %s\n", r.Hash)
	}
	if n := r.Wrong(); n > 0 {
		fmt.Fprintf(&b, "  Wrong: %s\n", Figure{"findings", n})
	} else if len(r.Checks) == 0 {
		b.WriteString("  There was nothing to check\n")
	} else {
		b.WriteString("  Good: no errors\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// line formats a finding in one line: position, instrument, text.
func (f *Finding) line(unit string) string {
	var where []string
	if f.Position.Line > 0 {
		where = append(where, unit+" "+strconv.FormatInt(f.Position.Line, 10))
	}
	if f.Instrument != "" {
		where = append(where, f.Instrument)
	}
	if f.Position.N > 0 {
		where = append(where, "#"+strconv.FormatUint(f.Position.N, 10))
	}
	if f.Position.Time != 0 {
		where = append(where, clock(f.Position.Time))
	}
	if len(where) == 0 {
		return f.Text
	}
	return strings.Join(where, " ") + ": " + f.Text
}

// clock formats a time as on the wire, "" for 0.
func clock(ns int64) string {
	if ns == 0 {
		return ""
	}
	return time.Unix(0, ns).UTC().Format("2006-01-02T15:04:05.000000000Z")
}

// group formats a number with commas between thousands.
func group(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// results returns the results of the checks with something to judge, in their order, and those that
// judged nothing.
func results(all *[numChecks]Result) (list []Result, notJudged []Check) {
	for c := range all {
		t := all[c]
		t.Check = Check(c)
		if t.Judged+t.Wrong == 0 {
			notJudged = append(notJudged, t.Check)
		}
		if t.Judged+t.Wrong+t.Unjudged > 0 {
			t.Findings = slices.Clone(t.Findings)
			list = append(list, t)
		}
	}
	return list, notJudged
}
