package docsite

import (
	"net/url"
	"slices"
	"strings"

	"github.com/ruedahq/rueda/internal/api/openapi"
	"github.com/ruedahq/rueda/internal/api/schema"
)

// channel holds the content of a page about the stream: about a channel of market data, or about an
// operation.
type channel struct {
	ID, Title, Text string
	Data            bool     // a channel of market data
	Sent            []string // ids of messages of the client
	Received        []string // ids of messages of the server
}

// message describes a type of message of the stream.
type message struct {
	ID, Title, Text string
	Fields          []field
	Examples        []string
}

// dataChannels returns the channels of market data with the messages that each of them sends. The
// AsyncAPI document does not contain this: it has a single channel, the WebSocket.
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

// readMessages returns the messages of the AsyncAPI document by id.
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

// readChannels returns the channels of market data, followed by the operations of the AsyncAPI
// document except sendData.
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

// messageNames returns the last segment of each reference, which is the id of a message.
func messageNames(refs []any) (names []string) {
	for _, r := range refs {
		m, _ := r.(schema.Map)
		ref := words(m, "$ref")
		names = append(names, ref[strings.LastIndexByte(ref, '/')+1:])
	}
	return names
}

// first returns the JSON message that a reader can send from the page of the channel, or "" if
// there is none.
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

// channelView is the data for the template of a channel's page.
type channelView struct {
	*channel
	First    string
	Sends    []*message
	Receives []*message
	Programs []program
}

// channel renders the page of the channel or operation with this id, or the list of all channels if
// id is empty. The error is errNoPage for an unknown id.
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

// channelPrograms returns the example programs for a channel. message is the subscribe message that
// they send.
func channelPrograms(name, message string) ([]program, error) {
	return render("channel", struct{ Origin, Socket, Token, Query, Message string }{
		exampleOrigin, strings.Replace(exampleOrigin, "http", "ws", 1), exampleToken,
		name + "=" + url.QueryEscape(exampleInstrument), message,
	})
}

// Socket returns the path of the WebSocket of the stream, for the template.
func (channelView) Socket() string { return openapi.StreamPath }
