package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// propagation is how long a published event may take to reach the connections of clients.
const propagation = 150 * time.Millisecond

// producer publishes the events of a conversation, as a producer of a feed of JSON lines
// (docs/feeds.md). Its instruments are those of the conversations, in markets of its own, so that
// nothing else happens to them.
type producer struct {
	conn    net.Conn
	answers *bufio.Reader
	markets *strings.Replacer // BYMA and SIM to its own markets
	barrier string            // an instrument that is never defined
	hasBook bool              // its instruments have books
	lines   []byte            // not sent yet
	trades  []trade           // published so far; their ids begin with 1
}

// trade is a trade as it was published or corrected last.
type trade struct{ price, size string }

// newProducer connects to a feed and defines the instruments of a conversation. name is a part of
// the names of its markets.
func newProducer(ctx context.Context, address, token, name string, c *Conversation) (*producer, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect to the feed: %w", err)
	}
	p := &producer{
		conn: conn, answers: bufio.NewReader(conn), barrier: "NONE|B" + name + "|CI",
		hasBook: slices.ContainsFunc(c.Steps, func(st step) bool {
			return strings.Contains(st.Rest, `"order_book":["`) || strings.Contains(st.Rest, " gap ") // of the book
		}),
		markets: strings.NewReplacer("|BYMA|", "|B"+name+"|", "|SIM|", "|S"+name+"|"),
	}
	hello := map[string]string{"type": "Hello", "name": "conformance-" + name}
	if token != "" {
		hello["token"] = token
	}
	p.add(hello)
	for _, id := range []string{ggal24, ggalCI, al30CI, fakeCI, indexCI} {
		p.list(id)
	}
	if err := p.send(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return p, nil
}

func (p *producer) close() { _ = p.conn.Close() } // nothing depends on it any more

// add adds a line.
func (p *producer) add(line any) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err) // maps of texts and numbers have a form in JSON
	}
	p.lines = append(append(p.lines, text...), '\n')
}

// list defines an instrument as those of the conversations are.
func (p *producer) list(name string) {
	id := p.markets.Replace(name)
	line := map[string]any{"type": "F", "I": id, "currency": "ARS", "price_decimals": 2, "size_decimals": 0, "status": "open"}
	hasBook := p.hasBook && name != indexCI
	if !hasBook {
		line["no_book"] = true
	}
	if !hasBook || name == ggalCI {
		line["own_quotes"] = true
	}
	p.add(line)
	if hasBook {
		p.add(map[string]any{"type": "O", "I": id, "R": true, "B": []int{}, "A": []int{}})
	}
}

// event adds the lines of a step. isEvent reports whether the step is one.
func (p *producer) event(st step) (isEvent bool, err error) {
	args := strings.Fields(st.Rest)
	count := map[string]int{"trade": 3, "late": 4, "cancel": 4, "correct": 4, "reference": 4, "quote": 5, "book": 5, "list": 1}[st.Verb]
	switch {
	case st.Verb == "status" && len(args) >= 2:
	case count == 0:
		return false, nil
	case len(args) != count:
		return true, fmt.Errorf("%s has %d words", st.Verb, len(args))
	}
	line := map[string]any{"T": now(0)}
	at := 0
	if st.Verb == "late" {
		d, err := time.ParseDuration(args[0])
		if err != nil {
			return true, err
		}
		line["T"], at = now(-d), 1
	}
	line["I"] = p.markets.Replace(args[at])
	args = args[at+1:]
	switch st.Verb {
	case "list":
		p.list(line["I"].(string))
		return true, nil
	case "trade", "late":
		p.trades = append(p.trades, trade{args[0], args[1]})
		line["type"], line["X"], line["G"], line["P"], line["Z"] = "T", strconv.Itoa(len(p.trades)), "B", number(args[0]), number(args[1])
	case "cancel", "correct":
		if err := p.amend(line, st.Verb, args); err != nil {
			return true, err
		}
	case "reference":
		line["type"] = "D"
		for i, member := range []string{"CL", "SE", "OI"} {
			if args[i] != "0" {
				line[member] = number(args[i])
			}
		}
	case "quote":
		line["type"], line["BP"], line["BZ"], line["AP"], line["AZ"] = "Q", number(args[0]), number(args[1]), number(args[2]), number(args[3])
	case "book":
		line["type"], line["R"] = "O", true
		line["B"], line["A"] = [][]json.Number{{number(args[0]), number(args[1])}}, [][]json.Number{{number(args[2]), number(args[3])}}
	case "status":
		line["type"], line["E"] = "H", args[0]
		if args[0] == "gap" {
			line["type"] = "Gap"
			delete(line, "E")
		}
		if len(args) > 1 {
			line["Y"] = args[1]
		}
	}
	p.add(line)
	return true, nil
}

// amend completes the line of a cancel or a correction of a trade. Only a cancel may be of one that
// does not exist.
func (p *producer) amend(line map[string]any, verb string, args []string) error {
	line["type"], line["X"], line["P"], line["Z"] = "X", args[0], number(args[1]), number(args[2])
	if verb == "correct" {
		n, err := strconv.Atoi(args[0])
		if err != nil || n < 1 || n > len(p.trades) {
			return fmt.Errorf("there is no trade %s", args[0])
		}
		old := &p.trades[n-1]
		line["type"], line["XP"], line["XZ"] = "C", number(old.price), number(old.size)
		*old = trade{args[1], args[2]}
	}
	return nil
}

func number(text string) json.Number { return json.Number(text) }

func now(later time.Duration) string {
	return time.Now().Add(later).UTC().Format("2006-01-02T15:04:05.000000000Z")
}

// send sends the added lines, and waits until the gateway has read them and clients have what they
// cause. The last line is of an unknown instrument, so that the gateway answers it.
func (p *producer) send(ctx context.Context) error {
	if len(p.lines) == 0 {
		return nil
	}
	p.add(map[string]any{"type": "T", "I": p.barrier, "P": 1, "Z": 1})
	limit := time.Now().Add(12 * tolerance) // a flood is long
	if err := p.conn.SetDeadline(limit); err != nil {
		return err
	}
	_, err := p.conn.Write(p.lines)
	p.lines = p.lines[:0]
	for err == nil {
		var line string
		if line, err = p.answers.ReadString('\n'); err != nil {
			break
		}
		var answer struct{ Type, Reason string }
		if json.Unmarshal([]byte(line), &answer) == nil && answer.Type != "Error" {
			continue // a Warning
		}
		if answer.Reason == "unknown_instrument" {
			return sleep(ctx, propagation)
		}
		err = errors.New(strings.TrimSpace(line))
	}
	return fmt.Errorf("publish to the feed: %w", err)
}
