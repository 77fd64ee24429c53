package verify

import (
	"fmt"
	"slices"

	"github.com/ruedahq/rueda/internal/recording"
	"github.com/ruedahq/rueda/market"
)

// Config says what a Verifier is to expect.
type Config struct {
	Instruments []market.Instrument // what is known of them; without, checksums are not judged
	Channels    []string            // of the stream, by their names on the wire; nil: any may be there
	Findings    int                 // kept of each check; 0: 20
	Ordered     bool                // messages of all channels come in the order they were published in
	UpdateIDs   bool                // events: quotes and book changes of an instrument share one count of sequences, and trades rise by one (Binance)
}

// Bounds of what is kept.
const (
	maxInstruments = 200_000
	maxLevels      = 1 << 16 // of a side of a book
)

// Verifier holds a stream against its own rules. It keeps what it needs to judge what comes next,
// and the first findings, however long the stream is.
type Verifier struct {
	config      Config
	known       map[string]*market.Instrument
	instruments map[string]*instrument
	markets     map[string]phases // as told by *|MARKET|*
	checks      [numChecks]Tally
	counts      map[string]uint64 // messages by type
	epoch       string
	received    int64 // receive time of the newest message
	published   int64 // of the newest row of a journal
	resume      resume
	notes       []string
	scratch     []byte
	bids, asks  []market.Level
}

// New makes a Verifier.
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

// Define tells what is known of instruments.
func (v *Verifier) Define(list []market.Instrument) {
	for i := range list {
		in := list[i]
		v.known[in.ID.String()] = &in
		if x := v.instruments[in.ID.String()]; x != nil {
			x.def = &in
		}
	}
}

// Note adds a sentence to the report. Past a hundred they are dropped.
func (v *Verifier) Note(format string, args ...any) {
	if len(v.notes) < 100 {
		v.notes = append(v.notes, fmt.Sprintf(format, args...))
	}
}

// wrong notes a finding.
func (v *Verifier) wrong(c Check, in *instrument, p Place, format string, args ...any) {
	t := &v.checks[c]
	t.Wrong++
	if len(t.Findings) < v.config.Findings {
		f := Finding{Check: c, Place: p, Text: fmt.Sprintf(format, args...)}
		if in != nil {
			f.Instrument = in.id
		}
		t.Findings = append(t.Findings, f)
	}
}

func (v *Verifier) judged(c Check)   { v.checks[c].Judged++ }
func (v *Verifier) unjudged(c Check) { v.checks[c].Unjudged++ }

// has says whether a channel is part of the stream.
func (v *Verifier) has(channel string) bool {
	return v.config.Channels == nil || slices.Contains(v.config.Channels, channel)
}

// instrument is the state of an instrument; nil where there are too many.
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

// Message judges a message of a stream, which was received at a time, Unix ns. line is its
// number for findings. What m points to is not kept.
func (v *Verifier) Message(line, at int64, m *recording.Message) {
	v.judged(Message)
	if at > 0 {
		if at < v.received {
			v.wrong(Time, nil, Place{Line: line}, "received %d ns before the message before it", v.received-at)
		}
		v.received = max(v.received, at)
	}
	if !m.IsData() {
		v.control(m)
		return
	}
	v.counts[m.Type]++
	if _, err := market.ParsePattern(m.ID); err != nil {
		v.wrong(Message, nil, Place{Line: line, N: m.N, Time: m.Time}, "I is %q, not SYMBOL|MARKET|TERM", m.ID)
		return
	}
	in := v.instrument(m.ID)
	if in == nil {
		v.unjudged(Message)
		return
	}
	in.message(Place{Line: line, N: m.N, Time: m.Time}, m)
	in.confirm()
	in.tops.derived.confirm(in)
	in.tops.own.confirm(in)
}

// Unreadable notes a message that could not be taken apart.
func (v *Verifier) Unreadable(line int64, err error) {
	v.judged(Message)
	v.wrong(Message, nil, Place{Line: line}, "%v", err)
}

// control reads what the server says of the stream: where its numbering begins anew, and what of
// it cannot be had.
func (v *Verifier) control(m *recording.Message) {
	if m.Type != "Subscription" && m.Type != "CaughtUp" && m.Type != "Alive" {
		return
	}
	defer v.resumed(m) // what it says of epochs and losses comes first
	if epoch := m.Text("epoch"); epoch != "" && epoch != v.epoch {
		if v.epoch != "" {
			v.Note("the numbering began anew: epoch %s after %s", epoch, v.epoch)
			for _, in := range v.instruments {
				in.anew()
			}
		}
		v.epoch = epoch
	}
	lost := m.JSON.Get("lost")
	for i := range lost.Fields {
		channel := &lost.Fields[i]
		for j := range channel.Value.Fields {
			id := &channel.Value.Fields[j]
			reason := id.Value.Get("reason")
			v.Note("the server told that of %s %s something is lost (%s)", channel.Name, id.Name, reason.Text)
			if in := v.instruments[id.Name]; in != nil {
				in.lost(channel.Name)
			}
		}
	}
}

// Interrupted says that the stream stopped here and went on later. Where it does not say itself what
// is lost, a hole is one.
func (v *Verifier) Interrupted() {
	v.resume = resume{again: true, cut: true}
	for _, in := range v.instruments {
		in.interrupted()
	}
}

// Report is what was found so far. After it nothing more is judged.
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
	r.Checks = tallies(&v.checks)
	r.Notes = v.notes
	return r
}

// Figures whose names do not end in what is counted.
const (
	sameID  = "books equal to the quote of the same update id" // books that have the very update id of a quote
	applied = "book changes applied"
)
