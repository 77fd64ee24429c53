package stream

import (
	"encoding/json"
	"strconv"
)

// Message is any message of the gateway. Absent members are empty. Decimals keep their text.
type Message struct {
	Text json.RawMessage `json:"-"`

	Type   string `json:"type"`
	Action string `json:"action"`

	S  string      `json:"S"`
	I  string      `json:"I"`
	DE int64       `json:"DE"`
	N  *int64      `json:"N"`
	T  string      `json:"T"`
	D  *int64      `json:"D"`
	R  *bool       `json:"R"`
	P  json.Number `json:"P"`
	Z  json.Number `json:"Z"`
	X  string      `json:"X"`
	G  string      `json:"G"`
	XP json.Number `json:"XP"`
	XZ json.Number `json:"XZ"`
	XN int64       `json:"XN"`
	C  []string    `json:"C"`

	BP json.Number     `json:"BP"`
	BZ json.Number     `json:"BZ"`
	AP json.Number     `json:"AP"`
	AZ json.Number     `json:"AZ"`
	BC int64           `json:"BC"`
	AC int64           `json:"AC"`
	DL *int            `json:"DL"`
	L  *int64          `json:"L"`
	B  [][]json.Number `json:"B"`
	A  [][]json.Number `json:"A"`
	K  *int64          `json:"K"`

	E string `json:"E"`
	Y string `json:"Y"`
	U string `json:"U"`

	IV string      `json:"IV"`
	OP json.Number `json:"OP"`
	HI json.Number `json:"HI"`
	LO json.Number `json:"LO"`
	CL json.Number `json:"CL"`
	LA json.Number `json:"LA"`
	TV json.Number `json:"TV"`
	EV json.Number `json:"EV"`
	VW json.Number `json:"VW"`
	TC json.Number `json:"TC"`
	SE json.Number `json:"SE"`
	OI json.Number `json:"OI"`

	Code     int                         `json:"code"`
	Msg      string                      `json:"msg"`
	Reason   string                      `json:"reason"`
	ID       json.Number                 `json:"id"`
	Epoch    string                      `json:"epoch"`
	Position string                      `json:"position"`
	Resumed  map[string]map[string]int64 `json:"resumed"`
	Lost     map[string]map[string]Range `json:"lost"`
	Last     map[string]map[string]int64 `json:"last"`
	Rejected []Rejected                  `json:"rejected"`
	Removed  []Rejected                  `json:"removed"`
	Retry    int                         `json:"retry_after"`
	Again    int                         `json:"reconnect_in_ms"`
}

// Range is a range of messages that are lost; 0 is unknown. Start and End, which only history has,
// are the times of the messages around it.
type Range struct {
	From   int64  `json:"from"`
	To     int64  `json:"to"`
	Reason string `json:"reason"`
	Start  string `json:"start"`
	End    string `json:"end"`
	Epoch  string `json:"-"` // of a page of history
}

// Rejected is an identifier that was refused or removed.
type Rejected struct {
	Channel    string `json:"channel"`
	Instrument string `json:"instrument"`
	Code       int    `json:"code"`
	Reason     string `json:"reason"`
}

// Snapshot reports whether R is true.
func (m *Message) Snapshot() bool { return m.R != nil && *m.R }

// Integer returns a number without a fraction, or -1.
func Integer(n json.Number) int64 {
	v, err := strconv.ParseInt(string(n), 10, 64)
	if err != nil {
		return -1
	}
	return v
}
