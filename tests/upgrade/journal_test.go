package upgrade_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/tests/upgrade/fixture"
)

// place identifies a row.
type place struct {
	Channel    string
	Instrument string
	N          uint64
}

// wrong is a row, or a resume, that this program answers wrongly.
type wrong struct {
	place
	Answer string // the members that differ, as the program answers them; "": the row is missing
	Resume string // a position from which a resume leaves out the trades from N to Last
	Last   uint64
}

// TestRows compares what this program answers about the rows of a journal with what was streamed.
func TestRows(t *testing.T) {
	folder := copied(t, "sqlite")
	streamed := streamed(t)
	var was fixture.Logins
	parse(t, readFile(t, "sqlite", "logins.json"), &was)
	var list []wrong
	synctest.Test(t, func(t *testing.T) {
		until(was.Exchanges[0].At)
		c, stop := serve(t, folder)
		defer stop()
		token := c.login("ana")
		list = compare(t, streamed, c.rows(token))
		for i, m := range streamed {
			if m.Position != "" && i%40 == 39 {
				list = append(list, lost(t, streamed[i+1:], m.Position, c.resume(token, m.Position))...)
			}
		}
	})
	for i, w := range list {
		if i == 10 {
			t.Fatalf("and %d more", len(list)-i)
		}
		t.Errorf("wrong: %+v", w)
	}
}

// compare returns the rows that were streamed and are not the same in the answers. Rows that were
// not streamed are wrong, too.
func compare(t *testing.T, streamed []fixture.Message, answers []json.RawMessage) (list []wrong) {
	t.Helper()
	was, is := index(t, texts(streamed)), index(t, answers)
	for at, text := range was {
		w := wrong{place: at}
		if answer, ok := is[at]; ok {
			if w.Answer = differences(t, text, answer); w.Answer == "" {
				continue
			}
		}
		list = append(list, w)
	}
	for at, text := range is {
		if _, ok := was[at]; !ok {
			list = append(list, wrong{place: at, Answer: string(text)})
		}
	}
	slices.SortFunc(list, order)
	return list
}

// lost returns the trades that a resume from a position leaves out, one line for each run of them.
// streamed has the messages after the position.
func lost(t *testing.T, streamed []fixture.Message, position string, resumed []json.RawMessage) (list []wrong) {
	t.Helper()
	is := index(t, resumed)
	for at := range index(t, texts(streamed)) {
		if _, ok := is[at]; !ok && at.Channel == "trades" {
			list = append(list, wrong{place: at, Resume: position, Last: at.N})
		}
	}
	slices.SortFunc(list, order)
	runs := list[:0]
	for _, w := range list {
		if n := len(runs); n > 0 && runs[n-1].Instrument == w.Instrument && runs[n-1].Last+1 == w.N {
			runs[n-1].Last = w.N
			continue
		}
		runs = append(runs, w)
	}
	return runs
}

// index returns the messages of the compared channels by their places.
func index(t *testing.T, messages []json.RawMessage) map[place]json.RawMessage {
	t.Helper()
	rows := map[place]json.RawMessage{}
	for _, data := range messages {
		if at, _ := placeOf(t, data); at.Channel != "" {
			rows[at] = data
		}
	}
	return rows
}

// placeOf returns the place and the time of a message.
func placeOf(t *testing.T, data []byte) (place, time.Time) {
	t.Helper()
	var m struct {
		Type, I string
		N       uint64
		T       time.Time
	}
	parse(t, data, &m)
	return place{channel(m.Type), m.I, m.N}, m.T
}

// channel returns the channel of a type of messages; "": its rows are not compared.
func channel(kind string) string {
	switch kind {
	case "T", "X", "C":
		return "trades"
	case "Q":
		return "quotes"
	case "B":
		return "bars"
	}
	return ""
}

// texts returns the messages without their positions.
func texts(list []fixture.Message) (texts []json.RawMessage) {
	for _, m := range list {
		texts = append(texts, m.Data)
	}
	return texts
}

// differences returns the members of a message that another one does not have, or has with another
// value, as the other one has them.
func differences(t *testing.T, was, is []byte) string {
	t.Helper()
	var a, b map[string]json.RawMessage
	parse(t, was, &a)
	parse(t, is, &b)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if !bytes.Equal(a[name], b[name]) {
			list = append(list, name+"="+string(b[name]))
		}
		delete(a, name)
	}
	for _, name := range slices.Sorted(maps.Keys(a)) {
		list = append(list, "no "+name)
	}
	return strings.Join(list, " ")
}

// order compares by position of a resume, channel, instrument and number.
func order(a, b wrong) int {
	return cmp.Or(cmp.Compare(a.Resume, b.Resume), cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Instrument, b.Instrument), cmp.Compare(a.N, b.N))
}

// streamed returns what a client received, after a comparison with what the producer sent.
func streamed(t *testing.T) []fixture.Message {
	t.Helper()
	messages, err1 := fixture.ReadLines[fixture.Message](filepath.Join(fd6a63bd, "streamed.jsonl.gz"))
	sent, err2 := fixture.ReadLines[json.RawMessage](filepath.Join(fd6a63bd, "sent.jsonl.gz"))
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	type trade struct {
		Type, I, X string
		P, Z       json.Number
	}
	var trades, of []trade
	for _, line := range sent {
		var x trade
		if parse(t, line, &x); channel(x.Type) == "trades" {
			trades = append(trades, x)
		}
	}
	for _, m := range messages {
		var x trade
		if parse(t, m.Data, &x); channel(x.Type) == "trades" {
			of = append(of, x)
		}
	}
	if !slices.Equal(trades, of) || len(of) < 1500 {
		t.Fatalf("the client received other trades (%d) than the producer sent (%d)", len(of), len(trades))
	}
	return messages
}

// rows returns all rows of the compared channels over REST.
func (c *asker) rows(token string) (rows []json.RawMessage) {
	c.t.Helper()
	for _, id := range fixture.Instruments() {
		for _, channel := range []string{"trades", "quotes", "bars"} {
			status, text := c.ask(&fixture.Exchange{Method: http.MethodGet, Token: token, Path: "/market/" + channel + "?limit=10000&instrument=" + url.QueryEscape(id)})
			var page struct{ Data map[string]json.RawMessage }
			var list []json.RawMessage
			parse(c.t, text, &page)
			if status != http.StatusOK {
				c.t.Fatalf("%s: %s", channel, text)
			}
			parse(c.t, page.Data[channel], &list)
			rows = append(rows, list...)
		}
	}
	return rows
}

// resume returns the messages that a client receives that resumes after a position.
func (c *asker) resume(token, position string) (list []json.RawMessage) {
	c.t.Helper()
	x := fixture.Exchange{Method: http.MethodGet, Path: fixture.StreamPath(), Token: token}
	res := c.open(&x, http.Header{"Last-Event-Id": {position}})
	defer res.Body.Close()
	err := fixture.Stream(res.Body, func(m fixture.Message) bool {
		list = append(list, m.Data)
		var kind struct{ Type string }
		parse(c.t, m.Data, &kind)
		return kind.Type != "CaughtUp"
	})
	if err != nil {
		c.t.Fatalf("resume after %s: %v", position, err)
	}
	return list
}
