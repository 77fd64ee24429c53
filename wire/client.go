package wire

import (
	"strconv"
	"strings"
	"time"

	"github.com/ruedahq/rueda/market"
)

// Message is a client message whose JSON has been parsed, but not all of its fields.
type Message struct {
	Action string
	ID     []byte // the id as sent, to be echoed; a view of the message; empty: none
	Values int    // JSON values in the message, those in arrays and objects too; also set by a fault
	body   Value
	badID  bool
}

// maxMembers is the largest number of members of a client message, not counting those of nested
// objects.
const maxMembers = 64

// ReadMessage parses a client message up to its action and id. The fault is BadJSON (not a JSON
// object) or BadMessage (no action). A valid id is set even if there is a fault; an invalid one is
// reported by Fields. After each 2 KiB or more, visit is called with the number of bytes that were
// parsed since its last call; nil: no calls.
func ReadMessage(data []byte, visit func(bytes int)) (Message, *Fault) {
	v, values, err := parse(data, maxMembers, visit)
	if err != nil {
		return Message{Values: values}, NewFault(BadJSON, err.Error())
	}
	if v.Kind != Object {
		return Message{Values: values}, NewFault(BadJSON, "")
	}
	m := Message{Values: values, body: v}
	switch id := v.Get("id"); {
	case !validID(&id):
		m.badID = true
	case id.Kind != Absent && id.Kind != Null:
		m.ID = id.Raw
	}
	action := v.Get("action")
	if action.Kind != String {
		return m, NewFault(BadMessage, "The field action must be a string")
	}
	m.Action = action.Text
	return m, nil
}

// Fields checks the fields that every action has. The fault is BadField.
func (m *Message) Fields() *Fault {
	if m.badID {
		return NewFault(BadField, "id must be a string of up to 36 bytes or an integer within 2^53")
	}
	return nil
}

func validID(v *Value) bool {
	switch v.Kind {
	case Absent, Null:
		return true
	case String:
		return len(v.Text) <= 36
	case Number:
		n, err := strconv.ParseInt(v.Text, 10, 64)
		return err == nil && n >= -1<<53 && n <= 1<<53
	}
	return false
}

// AuthToken holds the fields of the action auth_token.
type AuthToken struct {
	Token   string // may be "" if the client sent an empty text, which is not a valid token
	Session string // takeover name; "": none
	Slow    string // slow-client policy: SlowConflate, SlowStrict; "": none given
}

// Policies for clients that read too slowly.
const (
	SlowConflate = "conflate"
	SlowStrict   = "strict"
)

// AuthToken parses the fields of auth_token. The fault is BadField or UnsupportedOption.
func (m *Message) AuthToken() (AuthToken, *Fault) {
	var a AuthToken
	if f := m.Fields(); f != nil {
		return a, f
	}
	token := m.body.Get("token")
	if token.Kind != String {
		return a, NewFault(BadField, "token must be a string, the access token")
	}
	a.Token = token.Text
	name, f := m.text("session")
	if f != nil {
		return a, f
	}
	a.Slow, f = m.text("slow")
	if f != nil {
		return a, f
	}
	if name != "" && !validSession(name) {
		return a, NewFault(BadField, "session must be 1 to 36 of A-Z a-z 0-9 . _ -")
	}
	if a.Slow != "" && a.Slow != SlowConflate && a.Slow != SlowStrict {
		return a, NewFault(UnsupportedOption, "slow must be conflate or strict")
	}
	a.Session = name
	return a, nil
}

func validSession(s string) bool {
	if len(s) == 0 || len(s) > 36 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// Subscribe holds the fields of the actions subscribe, unsubscribe and resync.
type Subscribe struct {
	Lists [NumChannels][]string // identifiers as written, without duplicates
	// the message named the channel; for bars, the channel of Interval stands for all
	Given     [NumChannels]bool
	Interval  market.Interval // of identifiers of bars without an interval; default one minute
	Depth     int             // default 5; 0: all levels
	Conflate  int             // milliseconds; 0: none
	Snapshot  bool            // default true
	Replace   bool
	Alive     *bool // nil: not given
	Resume    *Resume
	Start     int64 // Unix ns: replay from this time; 0: no replay
	StartOpen bool  // replay from the opening of the market
}

// Resume holds what a client has already received.
type Resume struct {
	Epoch    string
	Position string                         // "": none
	Seen     [NumChannels]map[string]uint64 // last N by identifier; of bars without the interval
}

// Subscribe parses the fields of subscribe, and those of unsubscribe and resync, which have no
// options. The fault is BadField or UnsupportedOption. Types are checked before values, so BadField
// comes first. After a fault the result must not be used.
func (m *Message) Subscribe() (Subscribe, *Fault) {
	s := Subscribe{Depth: 5, Snapshot: true, Interval: market.Minute}
	if f := m.Fields(); f != nil {
		return s, f
	}
	if f := m.lists(&s); f != nil {
		return s, f
	}
	if f := m.switches(&s); f != nil {
		return s, f
	}
	if f := m.resume(&s); f != nil {
		return s, f
	}
	return s, m.options(&s)
}

func (m *Message) lists(s *Subscribe) *Fault {
	some := false
	for c := range Bars + 1 {
		list, given, f := m.list(c.String())
		if f != nil {
			return f
		}
		some = some || given
		if c < Bars {
			s.Lists[c], s.Given[c] = list, given
		} else if f := m.bars(s, list, given); f != nil {
			return f
		}
	}
	if !some {
		return NewFault(BadField, "No channel: name trades, quotes, order_book, status, summary or bars with an array of identifiers")
	}
	return nil
}

// bars sorts the identifiers of bars by interval. It accepts any interval word; options checks it.
func (m *Message) bars(s *Subscribe, list []string, given bool) *Fault {
	word, f := m.text("interval")
	if f != nil {
		return f
	}
	if word != "" && !given {
		return NewFault(BadField, "interval is only allowed with bars")
	}
	if i, ok := market.ParseInterval(word); ok {
		s.Interval = i
	}
	s.Given[BarsOf(s.Interval)] = given
	for _, text := range list {
		_, i, ok := cutInterval(text)
		if !ok {
			i = s.Interval
		}
		c := BarsOf(i)
		s.Lists[c], s.Given[c] = append(s.Lists[c], text), true
	}
	return nil
}

// cutInterval splits the interval off an identifier of bars. ok is false if it has none.
func cutInterval(text string) (id string, i market.Interval, ok bool) {
	if strings.Count(text, "|") != 3 {
		return text, 0, false
	}
	at := strings.LastIndexByte(text, '|')
	i, ok = market.ParseInterval(text[at+1:])
	if !ok {
		return text, 0, false
	}
	return text[:at], i, true
}

func (m *Message) switches(s *Subscribe) *Fault {
	for _, sw := range []struct {
		name string
		set  func(bool)
	}{
		{"snapshot", func(v bool) { s.Snapshot = v }},
		{"replace", func(v bool) { s.Replace = v }},
		{"alive", func(v bool) { s.Alive = &v }},
	} {
		switch v := m.body.Get(sw.name); v.Kind {
		case Absent, Null:
		case Bool:
			sw.set(v.True)
		default:
			return NewFault(BadField, sw.name+" must be true or false")
		}
	}
	return nil
}

func (m *Message) resume(s *Subscribe) *Fault {
	v := m.body.Get("resume")
	switch v.Kind {
	case Absent, Null:
		return nil
	case Object:
	default:
		return NewFault(BadField, "resume must be an object")
	}
	epoch := v.Get("epoch")
	if epoch.Kind != String || epoch.Text == "" || len(epoch.Text) > 64 {
		return NewFault(BadField, "resume.epoch must be the epoch of the server's answers")
	}
	r := &Resume{Epoch: epoch.Text}
	switch p := v.Get("position"); p.Kind {
	case Absent, Null:
	case String:
		if p.Text == "" || len(p.Text) > 128 {
			return NewFault(BadField, "resume.position is not a position of this server")
		}
		r.Position = p.Text
	default:
		return NewFault(BadField, "resume.position must be a string")
	}
	for c := range Bars {
		if f := r.seen(c, v.Get(c.String()), s.Lists[c]); f != nil {
			return f
		}
	}
	var bars []string
	for i := range market.NumIntervals {
		bars = append(bars, s.Lists[BarsOf(i)]...)
	}
	if f := r.seen(Bars, v.Get(Bars.String()), bars); f != nil {
		return f
	}
	r.splitBars(s.Interval)
	s.Resume = r
	return nil
}

// splitBars sorts the N of bars, which share one key in the message, by interval.
func (r *Resume) splitBars(interval market.Interval) {
	all := r.Seen[Bars]
	r.Seen[Bars] = nil
	for text, n := range all {
		id, i, ok := cutInterval(text)
		if !ok {
			i = interval
		}
		c := BarsOf(i)
		if r.Seen[c] == nil {
			r.Seen[c] = make(map[string]uint64)
		}
		r.Seen[c][id] = n
	}
}

func (r *Resume) seen(c Channel, v Value, listed []string) *Fault {
	switch v.Kind {
	case Absent, Null:
		return nil
	case Object:
	default:
		return NewFault(BadField, "resume."+c.String()+" must map identifiers to N")
	}
	r.Seen[c] = make(map[string]uint64, len(v.Fields))
	in := make(map[string]struct{}, len(listed))
	for _, id := range listed {
		in[id] = struct{}{}
	}
	for i := range v.Fields {
		name, val := v.Fields[i].Name, &v.Fields[i].Value
		if _, ok := in[name]; !ok {
			return NewFault(BadField, "resume."+c.String()+" names "+strconv.Quote(name)+", which the message does not subscribe")
		}
		n, err := strconv.ParseUint(val.Text, 10, 53)
		if val.Kind != Number || err != nil {
			return NewFault(BadField, "resume."+c.String()+": N must be an integer")
		}
		r.Seen[c][name] = n
	}
	return nil
}

func (m *Message) options(s *Subscribe) *Fault {
	depth := m.body.Get("depth")
	if depth.Kind != Absent && depth.Kind != Null && depth.Kind != Number {
		return NewFault(BadField, "depth must be a number")
	}
	conflate, f := m.text("conflate")
	if f != nil {
		return f
	}
	start, f := m.text("start")
	if f != nil {
		return f
	}
	if start != "" && s.Resume != nil {
		return NewFault(BadField, "start and resume cannot be combined")
	}
	if word, _ := m.text("interval"); word != "" {
		if _, ok := market.ParseInterval(word); !ok {
			return NewFault(UnsupportedOption, "interval must be 1s, 1m, 5m, 15m, 1h or 1d")
		}
	}
	switch depth.Text {
	case "": // not given
	case "0", "1", "5", "10", "25":
		s.Depth, _ = strconv.Atoi(depth.Text)
	default:
		return NewFault(UnsupportedOption, "depth must be 1, 5, 10, 25 or 0 (all)")
	}
	switch conflate {
	case "", "none":
	case "100ms":
		s.Conflate = 100
	case "250ms":
		s.Conflate = 250
	case "1s":
		s.Conflate = 1000
	default:
		return NewFault(UnsupportedOption, "conflate must be none, 100ms, 250ms or 1s")
	}
	switch start {
	case "":
		return nil
	case "open":
		s.StartOpen = true
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, start)
	if err != nil || t.Year() < 1971 || t.Year() > 2261 {
		return NewFault(BadField, `start must be "open" or a time such as "2026-11-20T14:00:00Z"`)
	}
	s.Start = t.UnixNano()
	return nil
}

// text returns an optional string member, "" if it is absent. A member that is present but empty is
// a fault: treating it as absent would answer a different request.
func (m *Message) text(name string) (string, *Fault) {
	switch v := m.body.Get(name); v.Kind {
	case Absent, Null:
		return "", nil
	case String:
		if v.Text == "" {
			return "", NewFault(BadField, name+" must not be empty")
		}
		return v.Text, nil
	default:
		return "", NewFault(BadField, name+" must be a string")
	}
}

// list returns an optional member that is an array of strings, without duplicates. null counts as
// absent.
func (m *Message) list(name string) (list []string, given bool, f *Fault) {
	v := m.body.Get(name)
	switch v.Kind {
	case Absent, Null:
		return nil, false, nil
	case Array:
	default:
		return nil, false, NewFault(BadField, name+" must be an array of identifiers")
	}
	seen := make(map[string]struct{}, len(v.Items))
	list = make([]string, 0, len(v.Items))
	for i := range v.Items {
		if v.Items[i].Kind != String {
			return nil, false, NewFault(BadField, name+" must contain only strings")
		}
		id := v.Items[i].Text
		if _, dup := seen[id]; dup {
			continue
		}
		seen[id] = struct{}{}
		list = append(list, id)
	}
	return list, true, nil
}

// ParseIdentifier parses one identifier of a channel's list: exact or a pattern. An identifier of
// bars may have an interval as its fourth part.
func ParseIdentifier(c Channel, s string) (market.InstrumentID, *Fault) {
	if c >= Bars {
		s, _, _ = cutInterval(s)
	}
	id, err := market.ParsePattern(s)
	if err != nil {
		return id, NewFault(BadInstrument, "")
	}
	return id, nil
}
