package scenario

import (
	"fmt"
	"strings"

	"github.com/ruedahq/rueda/bench/pattern"
	"github.com/ruedahq/rueda/bench/witness"
	"github.com/ruedahq/rueda/internal/base/frame"
)

const (
	attackInstruments = 2000 // of the gateway
	attackBooks       = 1990
	attackResumed     = 400
	attackRefused     = 600
	attackPatterns    = 64
	attackMembers     = 6000 // of a message of 60 KiB
	attackFragments   = 1000 // of a message

	mostMessages = 19  // a second, of a connection; the limit is 20
	mostFrames   = 400 // twice the limit, so that the burst is soon used up
)

// An attack is what a hostile user sends on each connection, and a control with as many frames and
// bytes that have no effect.
type attack struct {
	name        string
	user        string // "": one with all rights
	instruments int    // of the gateway
	unit        string // of its rate; "": messages
	setup       []string
	hostile     [][]byte // frames, sent in rotation
	control     [][]byte // the same; nil: the control sends nothing
	most        float64  // frames that a connection may try in a second
	silent      bool     // the windows are with a user who reads nothing
	resumes     bool     // the epoch is to be put into the messages
}

// attacks returns the workloads of Hostile.
func attacks() []attack {
	return append(costly(), frames()...)
}

// epochMark stands for the epoch of the gateway in a message.
const epochMark = "EPOCH0EPOCH0"

// costly returns the attacks with messages that the gateway charges for.
func costly() []attack {
	ids := make([]string, attackInstruments)
	for i := range ids {
		ids[i] = pattern.ID(i).String()
	}
	books, some := ids[:attackBooks], ids[:attackResumed]
	var tiers, bars []string
	for _, depth := range []int{1, 5, 10, 25, 0} {
		for _, conflate := range []string{"none", "100ms", "250ms", "1s"} {
			tiers = append(tiers, listing("subscribe", "order_book", books, fmt.Sprintf(`"depth":%d,"conflate":%q,"replace":true`, depth, conflate)))
		}
	}
	for _, interval := range []string{"1s", "1m", "5m", "15m", "1h", "1d"} {
		bars = append(bars, listing("subscribe", "bars", books, fmt.Sprintf(`"interval":%q,"replace":true`, interval)))
	}
	zero := make([]string, len(some))
	for i, id := range some {
		zero[i] = fmt.Sprintf("%q:0", id)
	}
	resumed := []string{
		listing("subscribe", "trades", some, `"resume":{"epoch":"`+epochMark+`","trades":{`+strings.Join(zero, ",")+`}}`),
		listing("unsubscribe", "trades", some, ""),
	}
	started := []string{listing("subscribe", "trades", some, `"start":"open"`), resumed[1]}
	toggled := []string{listing("subscribe", "quotes", ids, ""), listing("unsubscribe", "quotes", ids, "")}
	patterns := wildcards()
	list := []attack{
		texts("depth and conflation of 1,990 books, with replace", tiers),
		texts("resyncs of 1,990 books", []string{listing("resync", "order_book", books, "")}),
		texts("unsubscribe and subscribe of 2,000", toggled),
		texts("resumes of 400 from 0, read", resumed),
		texts("resumes of 400 from 0, not read", resumed),
		texts("starts of 400", started),
		texts("new bars of 1,990", bars),
		texts("6,000 unknown members", []string{members("ping")}),
		texts("unknown identifiers", []string{listing("subscribe", "quotes", unknown(), "")}),
		texts("patterns over 10,000", []string{listing("subscribe", "quotes", patterns, ""), listing("unsubscribe", "quotes", patterns, "")}),
	}
	list[1].setup = []string{listing("subscribe", "order_book", books, "")}
	list[3].resumes, list[4].resumes, list[4].silent = true, true, true
	list[8].user = "uq0000" // has quotes alone
	list[9].instruments = 10_000
	return list
}

// frames returns the attacks with frames that are not messages, or are not charged.
func frames() []attack {
	empty := frame.AppendMasked(nil, frame.Pong, 0, nil)
	ping := frame.AppendMasked(nil, frame.Ping, 0, make([]byte, 125))
	const pong = `{"action":"pong"}`
	fragments := [][]byte{frame.AppendMasked(nil, frame.Text&^final, 0, nil)}
	for range attackFragments - 2 {
		fragments = append(fragments, frame.AppendMasked(nil, 0, 0, nil))
	}
	fragments = append(fragments, frame.AppendMasked(nil, final, 0, []byte(pong)))
	same := func(n int) [][]byte { return [][]byte{frame.AppendMasked(nil, frame.Pong, 0, make([]byte, n))} }
	list := []attack{
		{name: "pings of RFC 6455", hostile: [][]byte{ping}, control: same(125)},
		{name: "pongs of RFC 6455", hostile: [][]byte{empty}},
		{name: "JSON pongs", hostile: [][]byte{witness.Text(pong)}, control: same(len(pong))},
		{name: "empty fragments", hostile: fragments, control: same(0)},
	}
	for i := range list {
		list[i].instruments, list[i].unit, list[i].most = attackInstruments, "frames", mostFrames
	}
	long := texts("JSON pongs with 6,000 unknown members", []string{members("pong")})
	return append(list, long)
}

// final is the bit of the last frame of a message.
const final = 0x80

// texts returns an attack of text messages. The control sends pongs of the same sizes.
func texts(name string, messages []string) attack {
	a := attack{name: name, instruments: attackInstruments, most: mostMessages}
	for _, m := range messages {
		harmless := `{"action":"pong"}`
		a.hostile = append(a.hostile, witness.Text(m))
		a.control = append(a.control, witness.Text(harmless+strings.Repeat(" ", len(m)-len(harmless))))
	}
	return a
}

// listing returns a message with one list of identifiers, and other members.
func listing(action, channel string, ids []string, more string) string {
	if more != "" {
		more = "," + more
	}
	return fmt.Sprintf(`{"action":%q,%q:["%s"]%s}`, action, channel, strings.Join(ids, `","`), more)
}

// members returns a message with many unknown members. They are in a nested object, because a
// message has at most 64 members.
func members(action string) string {
	list := make([]string, attackMembers)
	for i := range list {
		list[i] = fmt.Sprintf(`"m%04d":1`, i)
	}
	return fmt.Sprintf(`{"action":%q,"x":{%s}}`, action, strings.Join(list, ","))
}

// unknown returns identifiers that do not exist.
func unknown() []string {
	list := make([]string, attackRefused)
	for i := range list {
		list[i] = fmt.Sprintf("S%dXABCDEFGHIJKLMNOPQRS|BENCH|CI", i)
	}
	return list
}

// wildcards returns patterns, some of which cover all instruments.
func wildcards() []string {
	id := pattern.ID(0)
	list := []string{"*|*|*", "*|" + id.Market + "|*", "*|*|" + id.Term, "*|" + id.Market + "|" + id.Term}
	for i := len(list); i < attackPatterns; i++ {
		list = append(list, fmt.Sprintf("S%dXABCDEFGHIJKLMNOPQRS|*|*", i))
	}
	return list
}
