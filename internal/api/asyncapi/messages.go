package asyncapi

import (
	"fmt"
	"strings"

	"github.com/ruedahq/rueda/internal/api/schema"
)

// entry describes a message of the stream.
type entry struct {
	payload  string // component of its schema
	title    string
	examples string // their sources, separated by commas
}

// entries are all messages: of the client, without market data, and with market data.
var entries = [...]entry{
	{"AuthToken", "Authenticate", "talk/auth-success, talk/auth-session-name"},
	{"Subscribe", "Subscribe", "talk/subscribe, talk/resume, talk/bars-intervals"},
	{"Unsubscribe", "Unsubscribe", "talk/unsubscribe"},
	{"Subscriptions", "List the subscriptions", "talk/subscriptions"},
	{"Resync", "Request snapshots", "talk/resync"},
	{"Ping", "Ping of the client", "talk/heartbeat-ping-of-client"},
	{"Pong", "Answer to a ping of the server", "talk/heartbeat-one-pong-for-all"},
	{"SimRequest", "Request a fault", "talk/sim-gap, talk/sim-others"},

	{"Success", "Authenticated", "control/success"},
	{"Subscription", "The set of subscriptions", "control/subscription, control/subscription; removed, control/subscription; moved"},
	{"CaughtUp", "A replay has ended", "control/caught up"},
	{"Alive", "The stream works", "control/alive, control/alive; bars"},
	{"TokenExpiring", "The token expires soon", "control/token expiring"},
	{"SlowClient", "The client reads too slowly", "control/slow client"},
	{"ShuttingDown", "The server shuts down", "control/shutting down"},
	{"Error", "Error", "control/error, control/error; wait, control/error; slow client"},
	{"Sim", "A fault follows", "control/sim"},
	{"ServerPing", "Ping of the server", "control/ping"},
	{"ServerPong", "Answer to a ping of the client", "control/pong"},

	{"Trade", "Trade", "messages/trade, messages/trade; sold; with conditions"},
	{"Cancel", "Cancelled trade", "messages/cancel"},
	{"Correction", "Corrected trade", "messages/correction"},
	{"Quote", "Best bid and offer", "messages/quote, messages/quote; bid alone; as state"},
	{"BookSnapshot", "Order book", "messages/book"},
	{"BookUpdate", "Changes of an order book", "messages/book; update"},
	{"Status", "Trading status", "messages/halt, messages/market open; as state"},
	{"Summary", "Trading day so far", "messages/summary"},
	{"Bar", "Bar", "messages/bar"},
}

// id returns the name of the message in the document.
func (e entry) id() string { return strings.ToLower(e.payload[:1]) + e.payload[1:] }

// messageObjects returns the messages with their examples.
func messageObjects(example Example) (schema.Map, error) {
	descriptions := map[string]any{}
	for _, n := range Schemas() {
		descriptions[n.Name] = n.Schema.Get("description")
	}
	all := schema.Map{}
	for _, e := range entries {
		text, _ := descriptions[e.payload].(string)
		if text == "" {
			return nil, fmt.Errorf("%s has no description", e.payload)
		}
		var examples []schema.Map
		for source := range strings.SplitSeq(e.examples, ", ") {
			source = strings.ReplaceAll(source, ";", ",")
			payload, err := example(e.payload, source)
			if err != nil {
				return nil, fmt.Errorf("example of %s: %w", e.payload, err)
			}
			_, name, _ := strings.Cut(source, "/")
			examples = append(examples, schema.Map{{Name: "name", Value: name}, {Name: "payload", Value: payload}})
		}
		m := schema.Map{
			{Name: "name", Value: e.id()},
			{Name: "title", Value: e.title},
			{Name: "summary", Value: text},
			{Name: "contentType", Value: "application/json"},
			{Name: "payload", Value: schema.Ref(e.payload)},
		}
		if hasID(e.payload) {
			m = m.With("correlationId", schema.Map{{Name: "$ref", Value: "#/components/correlationIds/id"}})
		}
		all = all.With(e.id(), m.With("examples", examples))
	}
	return all, nil
}

// hasID reports whether the object of a component has a member id.
func hasID(component string) bool {
	for _, n := range Schemas() {
		if n.Name != component {
			continue
		}
		for _, f := range n.Schema.Fields() {
			if f.Name == "id" {
				return true
			}
		}
	}
	return false
}
