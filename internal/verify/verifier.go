package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire/stream"
)

// Config configures a Verifier.
type Config struct {
	Instruments []market.Instrument // known definitions; checksums are judged only with them
	Channels    []string            // of the stream, by their names on the wire; nil: unknown
	Findings    int                 // number kept for each check; 0: 20
	Ordered     bool                // messages of all channels come in the order of publication
	// events: quotes and book changes of an instrument share one sequence, and trade ids rise by
	// one (Binance)
	UpdateIDs bool
}

// Limits of the state.
const (
	maxInstruments = 200_000 // with data, and defined ones
	maxLevels      = 1 << 16 // per side of a book
	maxNotes       = 100
	maxText        = 1000 // bytes of a note or a finding
)

// Verifier checks a stream for consistency. Its memory does not grow with the length of the stream:
// it keeps what later checks need, and the first findings.
type Verifier struct {
	config      Config
	known       map[string]*market.Instrument
	instruments map[string]*instrument
	markets     map[string]phases // from *|MARKET|*
	checks      [numChecks]Result
	counts      map[string]uint64 // messages by type
	epoch       string
	received    int64 // receive time of the newest message
	published   int64 // of the newest row of a journal
	resume      resume
	notes       []string
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
		markets: map[string]phases{}, counts: map[string]uint64{},
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

// Message checks a message of a stream. at is its receive time (Unix ns), line its number for
// findings. Message does not keep anything that m points to.
func (v *Verifier) Message(line, at int64, m *stream.Message) {
	v.judged(Message)
	if at > 0 {
		if at < v.received {
			v.wrong(Time, nil, Position{Line: line}, "received %d ns before the message before it", v.received-at)
		}
		v.received = max(v.received, at)
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
	in.tops.derived.confirm(in)
	in.tops.independent.confirm(in)
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

// control handles messages of the server about the stream: a new epoch, and losses.
func (v *Verifier) control(m *stream.Message) {
	if m.Kind != stream.Subscription && m.Kind != stream.CaughtUp && m.Kind != stream.Alive {
		return
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
	r := &Report{Unit: "line", Notes: v.notes}
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
	r.Checks = results(&v.checks)
	r.Notes = v.notes
	return r
}

// Figures whose names do not end in the name of the counted thing.
const (
	// books with the same update id as a quote
	sameID  = "books equal to the quote of the same update id"
	applied = "book changes applied"
)
