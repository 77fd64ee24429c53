package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
	"github.com/ruedahq/rueda/wire/stream"
)

// Config configures a Verifier.
type Config struct {
	Instruments []market.Instrument // known definitions; checksums are judged only with them
	Channels    []string            // of the stream, by their names on the wire; nil: unknown
	Intervals   []string            // of its bars
	Findings    int                 // number kept for each check; 0: 20
	Ordered     bool                // messages of all channels come in the order of publication
	// UpdateIDs says that quotes and book changes of an instrument share one sequence, and that
	// trade ids rise by one (Binance).
	UpdateIDs bool
}

// Limits of the state.
const (
	maxInstruments = 200_000 // with data, and defined ones
	maxLevels      = 1 << 16 // per side of a book
	maxNotes       = 100
	maxText        = 1000 // bytes of a note or a finding
	maxSkips       = 1000
)

// Verifier checks a stream for consistency. Its memory does not grow with the length of the stream:
// it keeps what later checks need, and the first findings.
type Verifier struct {
	config      Config
	known       map[string]*market.Instrument
	instruments map[string]*instrument
	markets     map[string]phases // from *|MARKET|*
	outages     map[string]int    // of feeds, by market
	checks      [numChecks]Result
	counts      map[string]uint64 // messages by type
	epoch       string
	now         arrival // receive time of the newest message
	ending      bool    // everything was received
	published   int64   // of the newest row of a journal
	resume      resume
	conflated   bool            // the server has warned that it conflates
	skips       []skip          // gaps that conflation may explain
	partial     map[string]bool // channels of which the server refuses instruments
	notes       []string
	decoder     stream.Decoder
	message     stream.Message
	scratch     []byte
	bids, asks  []market.Level
}

// New returns a Verifier.
func New(c Config) *Verifier {
	if c.Findings <= 0 {
		c.Findings = 20
	}
	v := &Verifier{
		config: c, known: map[string]*market.Instrument{}, instruments: map[string]*instrument{},
		markets: map[string]phases{}, outages: map[string]int{}, counts: map[string]uint64{}, partial: map[string]bool{},
		decoder: stream.Decoder{Lenient: true},
	}
	v.Define(c.Instruments)
	return v
}

// Define adds definitions of instruments.
func (v *Verifier) Define(list []market.Instrument) {
	for i := range list {
		in := list[i]
		id := in.ID.String()
		if _, known := v.known[id]; !known && len(v.known) >= maxInstruments {
			continue
		}
		v.known[id] = &in
		if x := v.instruments[id]; x != nil {
			x.def = &in
		}
	}
}

// Note adds a sentence to the report, up to a hundred.
func (v *Verifier) Note(format string, args ...any) {
	if len(v.notes) < maxNotes {
		v.notes = append(v.notes, sentence(format, args...))
	}
}

// sentence returns a text of a report, without the end of a very long one.
func sentence(format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	if len(text) > maxText {
		text = strings.ToValidUTF8(strings.Clone(text[:maxText]), "") + "..."
	}
	return text
}

// wrong adds a finding.
func (v *Verifier) wrong(c Check, in *instrument, p Position, format string, args ...any) {
	t := &v.checks[c]
	t.Wrong++
	if len(t.Findings) < v.config.Findings {
		f := Finding{Check: c, Position: p, Text: sentence(format, args...)}
		if in != nil {
			f.Instrument = in.id
		}
		t.Findings = append(t.Findings, f)
	}
}

func (v *Verifier) judged(c Check)   { v.checks[c].Judged++ }
func (v *Verifier) unjudged(c Check) { v.checks[c].Unjudged++ }

// has reports whether a channel is part of the stream.
func (v *Verifier) has(channel string) bool {
	return v.config.Channels == nil || slices.Contains(v.config.Channels, channel)
}

// expects reports whether each instrument of the stream has the messages of a channel.
func (v *Verifier) expects(channel string) bool {
	return slices.Contains(v.config.Channels, channel) && !v.partial[channel]
}

// instrument returns the state of an instrument, nil if there are too many.
func (v *Verifier) instrument(id string) *instrument {
	in := v.instruments[id]
	if in == nil {
		if len(v.instruments) >= maxInstruments {
			return nil
		}
		in = newInstrument(v, id)
		v.instruments[id] = in
	}
	return in
}

// Text checks a message of a stream as it was received. The rest is as in Message.
func (v *Verifier) Text(line, at int64, text []byte) {
	m := &v.message
	if err := v.decoder.Decode(text, m); err != nil {
		v.Unreadable(line, err)
		return
	}
	if what := v.lacks(text, m); what != "" {
		v.wrong(Message, v.instrument(m.ID.String()), Position{Line: line, N: m.N, Time: m.Time}, "%s", what)
	}
	v.Message(line, at, m)
}

// lacks returns what a message of market data lacks that every server of the protocol sends, "" if
// nothing. The decoder accepts such messages.
func (v *Verifier) lacks(text []byte, m *stream.Message) string {
	if !m.Kind.IsData() {
		return ""
	}
	v.scratch = append(wire.AppendString(append(v.scratch[:0], `"S":`...), m.ID.Symbol), ',')
	switch {
	case !bytes.Contains(text, v.scratch) && symbolOf(text) != m.ID.Symbol:
		return "S is not the symbol of I"
	case m.Kind == stream.Book && !m.HasChecksum():
		return "a message O without the member K"
	case m.Kind == stream.Book && m.Snapshot && !bytes.Contains(text, []byte(`"DL"`)):
		return "a message O with R and without the member DL"
	}
	return ""
}

// symbolOf returns S of a message.
func symbolOf(text []byte) string {
	var m struct {
		S string `json:"S"`
	}
	_ = json.Unmarshal(text, &m) // the decoder has accepted it
	return m.S
}

// Message checks a message of a stream. at is its receive time (Unix ns), line its number for
// findings. Message does not keep anything that m points to.
func (v *Verifier) Message(line, at int64, m *stream.Message) {
	v.judged(Message)
	if at > 0 {
		if at < v.now.at {
			v.wrong(Time, nil, Position{Line: line}, "received %d ns before the message before it", v.now.at-at)
		}
		v.now.next(at)
	}
	if !m.Kind.IsData() {
		v.control(m)
		return
	}
	v.counts[typeOf(m)]++
	in := v.instrument(m.ID.String())
	if in == nil {
		v.unjudged(Message)
		return
	}
	in.message(Position{Line: line, N: m.N, Time: m.Time}, m)
	in.confirm()
	in.confirmBacks(false)
	in.tops.confirm(in)
}

// typeOf returns the type of market data on the wire.
func typeOf(m *stream.Message) string {
	switch m.Trade.Kind {
	case market.KindCancel:
		return "X"
	case market.KindCorrect:
		return "C"
	}
	return [...]string{stream.Trade: "T", stream.Quote: "Q", stream.Book: "O", stream.Status: "H", stream.Summary: "D", stream.Bar: "K"}[m.Kind]
}

// Unreadable records a message that could not be decoded.
func (v *Verifier) Unreadable(line int64, err error) {
	v.judged(Message)
	v.wrong(Message, nil, Position{Line: line}, "%v", err)
}

// skip is a gap in the numbers of quotes or summaries.
type skip struct {
	in       *instrument
	position Position
	text     string
}

// skipped records a gap in the numbers of a channel that may be conflated.
func (v *Verifier) skipped(s skip) {
	if len(v.skips) < maxSkips {
		v.skips = append(v.skips, s)
	}
}

// judgeSkips reports the gaps of conflated channels, if nothing was conflated.
func (v *Verifier) judgeSkips() {
	if v.conflated {
		v.Note("the server warned that it conflates: missing quotes and summaries are not judged")
		return
	}
	for i := range v.skips {
		s := &v.skips[i]
		v.wrong(Sequence, s.in, s.position, "%s", s.text)
	}
}

// control handles messages of the server about the stream: a new epoch, and losses.
func (v *Verifier) control(m *stream.Message) {
	if m.Kind == stream.Warning && m.Control.Reason == wire.SlowClient {
		v.conflated = true
	}
	if m.Kind != stream.Subscription && m.Kind != stream.CaughtUp && m.Kind != stream.Alive {
		return
	}
	for _, list := range [...][]stream.Rejection{m.Control.Rejected, m.Control.Removed} {
		for i := range list {
			v.partial[list[i].Channel] = true
		}
	}
	defer v.resumed(m) // epochs and losses in the message come first
	if epoch := m.Control.Epoch; epoch != "" && epoch != v.epoch {
		if v.epoch != "" {
			v.Note("a new epoch began: %s after %s", epoch, v.epoch)
			for _, in := range v.instruments {
				in.reset()
			}
		}
		v.epoch = epoch
	}
	for s, r := range m.Control.Lost {
		id := s.Instrument.String()
		v.Note("the server reported a loss in %s of %s (%s)", s.Channel, id, r.Reason)
		if in := v.instruments[id]; in != nil {
			in.lost(s.Channel.String())
		}
	}
}

// Interrupted records that the stream was interrupted here and continued later. Unless the server
// reports a loss, a gap is still a finding.
func (v *Verifier) Interrupted() {
	v.resume = resume{interrupted: true, disconnected: true}
	for _, in := range v.instruments {
		in.interrupted()
	}
}

// Report returns the report. Do not add messages after calling it.
func (v *Verifier) Report() *Report {
	ids := make([]string, 0, len(v.instruments))
	for id := range v.instruments {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	r := &Report{Unit: "line"}
	v.ending = true
	v.judgeSkips()
	for _, id := range ids {
		in := v.instruments[id]
		in.finish()
		if pattern, _ := market.ParsePattern(id); !pattern.IsPattern() {
			r.Instruments++
		}
	}
	for _, c := range [...]struct{ kind, name string }{
		{"T", "trades"}, {"late", "late trades"}, {"X", "cancels"}, {"C", "corrections"}, {"Q", "quotes"}, {"O", "book messages"},
		{"H", "statuses"}, {"gap", "gaps"}, {"K", "bars"}, {"D", "summaries"},
	} {
		if n := v.counts[c.kind]; n > 0 {
			r.Figures = append(r.Figures, Figure{c.name, n})
		}
	}
	if n := v.counts["same"]; n > 0 {
		r.Figures = append(r.Figures, Figure{sameID, n})
	}
	r.Checks, r.NotJudged = results(&v.checks)
	r.Notes = v.notes
	return r
}

// Figures whose names do not end in the name of the counted thing.
const (
	// books with the same update id as a quote
	sameID  = "books equal to the quote of the same update id"
	applied = "book changes applied"
)
