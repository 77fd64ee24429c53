package docsite

import (
	"net/url"
	"slices"
	"strings"

	"github.com/ruedahq/rueda/internal/api/openapi"
	"github.com/ruedahq/rueda/internal/api/schema"
)

// channel is what a page about the stream describes: a channel of market data, or an operation.
type channel struct {
	ID, Title, Text string
	Data            bool     // a channel of market data
	Sent            []string // ids of messages of the client
	Received        []string // ids of messages of the server
}

// message is a message of the stream.
type message struct {
	ID, Title, Text string
	Fields          []field
	Examples        []string
}

// dataChannels returns the messages of each channel of market data. The AsyncAPI document has one
// channel, the socket, and does not say which subscription a message belongs to.
func dataChannels() []channel {
	return []channel{
		{ID: "trades", Title: "Trades", Text: "Trades, cancels and corrections of an instrument, numbered without gaps.", Received: []string{"trade", "cancel", "correction"}},
		{ID: "quotes", Title: "Quotes", Text: "The best bid and offer of an instrument.", Received: []string{"quote"}},
		{ID: "order_book", Title: "Order books", Text: "The order book of an instrument: a snapshot, then its changes.", Received: []string{"bookSnapshot", "bookUpdate"}},
		{ID: "status", Title: "Trading status", Text: "The trading status of an instrument or of a whole market.", Received: []string{"status"}},
		{ID: "summary", Title: "Summaries", Text: "The trading day of an instrument so far.", Received: []string{"summary"}},
		{ID: "bars", Title: "Bars", Text: "Bars of an instrument: the trades of an interval.", Received: []string{"bar"}},
	}
}

// readMessages returns the messages of the AsyncAPI document.
func readMessages(d *document) map[string]*message {
	all := map[string]*message{}
	for _, m := range object(d.root, "components", "messages") {
		body, _ := m.Value.(schema.Map)
		out := &message{ID: m.Name, Title: words(body, "title"), Text: words(body, "summary"), Fields: d.fields(body.Get("payload"))}
		if len(out.Fields) > 0 && out.Fields[0].Variant {
			out.Fields = out.Fields[1:] // its text is the summary
		}
		for _, e := range items(body, "examples") {
			example, _ := e.(schema.Map)
			out.Examples = append(out.Examples, compact(example.Get("payload")))
		}
		all[m.Name] = out
	}
	return all
}

// readChannels returns the channels of market data, and then the operations.
func readChannels(d *document) (list []*channel) {
	for _, c := range dataChannels() {
		c.Data, c.Sent = true, []string{"subscribe"}
		list = append(list, &c)
	}
	for _, m := range object(d.root, "operations") {
		o, _ := m.Value.(schema.Map)
		c := &channel{ID: m.Name, Title: words(o, "title"), Text: words(o, "description")}
		first, answers := messageNames(items(o, "messages")), messageNames(items(object(o, "reply"), "messages"))
		if words(o, "action") == "receive" {
			c.Sent, c.Received = first, answers
		} else {
			c.Sent, c.Received = answers, first
		}
		if m.Name != "sendData" { // the channels of market data describe it
			list = append(list, c)
		}
	}
	return list
}

// messageNames returns the last parts of references.
func messageNames(refs []any) (names []string) {
	for _, r := range refs {
		m, _ := r.(schema.Map)
		ref := words(m, "$ref")
		names = append(names, ref[strings.LastIndexByte(ref, '/')+1:])
	}
	return names
}

// first returns the message that the page of a channel offers to send; "": none.
func (c *channel) first(messages map[string]*message) string {
	switch {
	case c.Data:
		return compact(schema.Map{{Name: "action", Value: "subscribe"}, {Name: c.ID, Value: []any{exampleInstrument}}})
	case len(c.Sent) == 0:
		return ""
	}
	m := messages[c.Sent[0]]
	if len(m.Examples) == 0 {
		return ""
	}
	text := m.Examples[0]
	if c.Sent[0] == "authToken" {
		return `{"action":"auth_token","token":"` + exampleToken + `"}`
	}
	return text
}

// channelView is what the page of a channel shows.
type channelView struct {
	*channel
	First    string
	Sends    []*message
	Receives []*message
	Programs []program
}

// channel renders the page of a channel or operation of the stream, or the list of all.
func (s *Site) channel(at place, id string) ([]byte, error) {
	c, err := s.parts().contract()
	if err != nil {
		return nil, err
	}
	if id == "" && at.name == "stream" {
		f := s.frame(at, "")
		f.Title = f.T("The stream")
		return s.finish(f, "channels", c.channels)
	}
	i := slices.IndexFunc(c.channels, func(ch *channel) bool { return ch.ID == id })
	if i < 0 {
		return nil, errNoPage
	}
	v := channelView{channel: c.channels[i], First: c.channels[i].first(c.messages)}
	for _, m := range v.Sent {
		v.Sends = append(v.Sends, c.messages[m])
	}
	for _, m := range v.Received {
		v.Receives = append(v.Receives, c.messages[m])
	}
	if v.Data {
		if v.Programs, err = channelPrograms(v.ID, v.First); err != nil {
			return nil, err
		}
	}
	f := s.frame(at, v.Title)
	menu := [2]group{{Title: f.T("Channels")}, {Title: f.T("Operations")}}
	for _, ch := range c.channels {
		g := &menu[1]
		if ch.Data {
			g = &menu[0]
		}
		g.Links = append(g.Links, link{Path: place{at.lang, "stream/" + ch.ID}.path(), Text: ch.Title, Lang: "en"})
	}
	f.Menu = append(f.Menu[:1:1], menu[:]...)
	return s.finish(f, "channel", v)
}

// channelPrograms returns the programs about a channel of market data.
func channelPrograms(name, message string) ([]program, error) {
	return render("channel", struct{ Origin, Socket, Token, Query, Message string }{
		exampleOrigin, strings.Replace(exampleOrigin, "http", "ws", 1), exampleToken,
		name + "=" + url.QueryEscape(exampleInstrument), message,
	})
}

// Socket returns the path of the stream.
func (channelView) Socket() string { return openapi.StreamPath }
