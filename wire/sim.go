package wire

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/ruedahq/rueda/internal/base/spell"
	"github.com/ruedahq/rueda/market"
)

// SimFault describes a fault that a client can request with the action sim on a development
// gateway.
type SimFault struct {
	Name  string
	Alias string // alternative name; "": none
	// it affects only the caller's connection; otherwise the market, and requires the scope admin
	OwnConnection   bool
	TakesInstrument bool   // an instrument may be named
	Description     string // what happens, in a sentence
}

// Names of faults that affect the caller's connection.
const (
	SimGap         = "gap"
	SimStall       = "stall"
	SimSlowDown    = "slow_down"
	SimBadChecksum = "bad_checksum"
	SimTokenExpiry = "token_expiry"
	SimDisconnect  = "disconnect"
	SimRestart     = "restart"
)

// Names of faults that affect the market.
const (
	SimHalt          = "halt"
	SimAuction       = "auction"
	SimOpen          = "open"
	SimCorrection    = "correction"
	SimCancel        = "cancel"
	SimBurst         = "burst"
	SimCrossedBook   = "crossed_book"
	SimCloseMarket   = "close_market"
	SimClockSkew     = "clock_skew"
	SimFeedGap       = "feed_gap"
	SimFeedStall     = "feed_stall"
	SimSequenceReset = "sequence_reset"
	SimOneSided      = "one_sided"
	SimJump          = "jump"
	SimListing       = "listing"
	SimSpeed         = "speed"
	SimKillLeader    = "kill_leader"
)

// SimFaults returns all faults of the action sim, in the order of their documentation.
func SimFaults() []SimFault {
	return []SimFault{
		{SimGap, "", true, true, "The next trade message to this connection is left out, so that N has a gap"},
		{SimStall, "", true, false, "This connection receives no stream data for 30 s, then it continues with a gap"},
		{SimSlowDown, "", true, false, "This connection receives at most 2 KiB of the stream per second for 30 s"},
		{SimBadChecksum, "", true, true, "The next order book message to this connection carries a wrong checksum"},
		{SimTokenExpiry, "", true, false, "The token of this connection expires in 1 s"},
		{SimDisconnect, "", true, false, "This connection is reset in 1 s, without a close frame"},
		{SimRestart, "drain", true, false, "This connection is asked to reconnect, and closed after 3 s"},
		{SimHalt, "", false, true, "Trading in the instrument is halted for a while"},
		{SimAuction, "", false, true, "Trading in the instrument is interrupted by an auction"},
		{SimOpen, "continuous", false, true, "Continuous trading in the instrument begins now"},
		{SimCorrection, "", false, true, "The newest trade of the instrument is corrected"},
		{SimCancel, "bust", false, true, "The newest trade of the instrument is cancelled"},
		{SimBurst, "", false, true, "A thousand orders arrive at once"},
		{SimCrossedBook, "crossed", false, true, "The book of the instrument is crossed for a second"},
		{SimCloseMarket, "close", false, true, "The market of the instrument closes for a while"},
		{SimClockSkew, "", false, true, "The times of the instrument's events are ahead for a while"},
		{SimFeedGap, "", false, true, "The feed loses the events of the instrument for a while"},
		{SimFeedStall, "", false, true, "The instrument has no events for a while, without a status that says so"},
		{SimSequenceReset, "", false, true, "The feed of the instrument restarts"},
		{SimOneSided, "", false, true, "The instrument has no sell orders for a while"},
		{SimJump, "", false, true, "The price of the instrument jumps"},
		{SimListing, "list", false, true, "A new instrument is listed on the market SIM"},
		{SimSpeed, "", false, false, "The market runs faster or slower from now on"},
		{SimKillLeader, "kill-leader", false, false, "The sequencer of the cluster is cut off, and another node takes its place"},
	}
}

// FindSimFault returns the fault with a name or alias. If there is none, it returns a BadField
// fault whose message names the most similar word and whose hint lists all names.
func FindSimFault(word string) (SimFault, *Fault) {
	all := SimFaults()
	names := make([]string, 0, len(all))
	nearest, least := "", len(word)
	for i := range all {
		if f := &all[i]; word == f.Name || word == f.Alias && word != "" {
			return *f, nil
		}
		names = append(names, all[i].Name)
	}
	f := &Fault{Reason: BadField, Msg: "fault must be the name of a fault", Hint: "Faults: " + strings.Join(names, ", ")}
	if word == "" || len(word) > 64 {
		return SimFault{}, f
	}
	for i := range all {
		for _, known := range [...]string{all[i].Name, all[i].Alias} {
			d := spell.Distance(word, known)
			if len(word) > 2 && strings.Contains(known, word) {
				d = 0 // part of its name
			}
			if d < least && known != "" {
				nearest, least = known, d
			}
		}
	}
	f.Msg = "There is no fault " + strconv.Quote(word)
	if nearest != "" {
		f.Msg += "; the nearest is " + nearest
	}
	return SimFault{}, f
}

// Sim holds the fields of the action sim.
type Sim struct {
	Fault      SimFault
	Instrument market.InstrumentID // zero: none given
	// affect all other connections of the caller's user instead of the caller's own
	Others bool
	Speed  market.Size // of SimSpeed, in seconds of the market per second; 0: none given
}

// Limits of Sim.Speed.
const (
	SimSlowest market.Size = market.Scale / 10
	SimFastest market.Size = market.Scale * 1000
)

// Sim parses the fields of sim. The fault is BadField or BadInstrument.
func (m *Message) Sim() (Sim, *Fault) {
	var s Sim
	if f := m.Fields(); f != nil {
		return s, f
	}
	word := m.body.Get("fault")
	if word.Kind != String {
		_, f := FindSimFault("")
		f.Msg = "fault must be the name of a fault, a string"
		return s, f
	}
	var f *Fault
	if s.Fault, f = FindSimFault(word.Text); f != nil {
		return s, f
	}
	switch others := m.body.Get("others"); {
	case others.Kind == Absent || others.Kind == Null:
	case others.Kind != Bool:
		return s, NewFault(BadField, "others must be true or false")
	case others.True && !s.Fault.OwnConnection:
		return s, NewFault(BadField, "others cannot be used with "+s.Fault.Name+", which affects the market")
	default:
		s.Others = others.True
	}
	if f := m.simSpeed(&s); f != nil {
		return s, f
	}
	name := m.body.Get("instrument")
	switch {
	case name.Kind == Absent || name.Kind == Null:
		return s, nil
	case name.Kind != String:
		return s, NewFault(BadField, "instrument must be an identifier, a string")
	case !s.Fault.TakesInstrument:
		whole := "connection"
		if !s.Fault.OwnConnection {
			whole = "market"
		}
		return s, NewFault(BadField, "instrument cannot be used with "+s.Fault.Name+", which affects the whole "+whole)
	}
	id, err := market.ParseInstrumentID(name.Text)
	if err != nil {
		return s, NewFault(BadInstrument, "")
	}
	s.Instrument = id
	return s, nil
}

// simSpeed parses the optional member speed.
func (m *Message) simSpeed(s *Sim) (f *Fault) {
	speed := m.body.Get("speed")
	if speed.Kind == Absent || speed.Kind == Null {
		return nil
	}
	if s.Fault.Name != SimSpeed {
		return NewFault(BadField, "speed cannot be used with "+s.Fault.Name)
	}
	var err error
	if s.Speed, err = market.ParseSize(speed.Text); speed.Kind != Number || err != nil || s.Speed < SimSlowest || s.Speed > SimFastest {
		return NewFault(BadField, "speed must be a number from 0.1 to 1000")
	}
	return nil
}

// AppendSim appends the answer to sim. msg describes what will happen. speed is that of the market,
// for the fault SimSpeed; 0: none.
func AppendSim(b, id []byte, fault, msg string, speed market.Size) []byte {
	b = append(b, `{"type":"Sim","code":200,"msg":`...)
	b = AppendString(b, msg)
	b = appendID(b, id)
	b = appendText(b, "fault", fault)
	if speed > 0 {
		b = speed.Append(append(b, `,"speed":`...))
	}
	return append(b, '}')
}

// CorruptChecksum appends an O message, given without its frame, with a wrong checksum. It appends
// other messages unchanged.
func CorruptChecksum(b, message []byte) []byte {
	const name = `,"K":`
	at := bytes.LastIndex(message, []byte(name))
	if at < 0 || message[len(message)-1] != '}' {
		return append(b, message...)
	}
	at += len(name)
	k, err := strconv.ParseUint(string(message[at:len(message)-1]), 10, 32)
	if err != nil {
		return append(b, message...)
	}
	b = append(b, message[:at]...)
	b = strconv.AppendUint(b, uint64(^uint32(k)), 10)
	return append(b, '}')
}
