package asyncapi

import "github.com/ruedahq/rueda/internal/api/schema"

// operations returns what the gateway does: it receives the messages of clients, and sends data.
func operations() schema.Map {
	return schema.Map{
		request("authenticate", "Authenticate the connection, or replace its token", "authToken", "success", "error"),
		request("subscribe", "Add to the set of subscriptions, or replace it", "subscribe", "subscription", "error"),
		request("unsubscribe", "Remove from the set of subscriptions", "unsubscribe", "subscription", "error"),
		request("listSubscriptions", "Read the set of subscriptions", "subscriptions", "subscription", "error"),
		request("resync", "Request new snapshots", "resync", "subscription", "error"),
		request("ping", "Check the connection", "ping", "serverPong", "error"),
		request("requestFault", "Request a fault, on development gateways", "simRequest", "sim", "error"),
		{Name: "heartbeat", Value: schema.Map{
			{Name: "action", Value: "send"},
			{Name: "title", Value: "Heartbeat"},
			{Name: "description", Value: "The server pings from authentication on. The client answers with pong."},
			{Name: "channel", Value: ref(channelRef)},
			{Name: "messages", Value: refs("serverPing")},
			{Name: "reply", Value: reply("pong")},
		}},
		{Name: "sendData", Value: schema.Map{
			{Name: "action", Value: "send"},
			{Name: "title", Value: "Market data"},
			{Name: "description", Value: "Messages of the instruments that the client has subscribed to."},
			{Name: "channel", Value: ref(channelRef)},
			{Name: "tags", Value: []schema.Map{{{Name: "name", Value: "market data"}}}},
			{Name: "messages", Value: refs("trade", "cancel", "correction", "quote", "bookSnapshot", "bookUpdate", "status", "summary", "bar")},
		}},
		{Name: "sendNotices", Value: schema.Map{
			{Name: "action", Value: "send"},
			{Name: "title", Value: "Notices"},
			{Name: "description", Value: "Messages of the server that answer no request: marks, warnings, changes of the set, the end of a replay, and the reason of a close."},
			{Name: "channel", Value: ref(channelRef)},
			{Name: "tags", Value: []schema.Map{{{Name: "name", Value: "session"}}}},
			{Name: "messages", Value: refs("caughtUp", "alive", "subscription", "tokenExpiring", "slowClient", "shuttingDown", "error")},
		}},
	}
}

// request returns an operation: a message of the client and its possible answers.
func request(name, summary, message string, answers ...string) schema.Member {
	return schema.Member{Name: name, Value: schema.Map{
		{Name: "action", Value: "receive"},
		{Name: "title", Value: summary},
		{Name: "description", Value: summary + "."},
		{Name: "channel", Value: ref(channelRef)},
		{Name: "tags", Value: []schema.Map{{{Name: "name", Value: "session"}}}},
		{Name: "messages", Value: refs(message)},
		{Name: "reply", Value: reply(answers...)},
	}}
}

func reply(messages ...string) schema.Map {
	return schema.Map{{Name: "channel", Value: ref(channelRef)}, {Name: "messages", Value: refs(messages...)}}
}

func refs(messages ...string) (list []schema.Map) {
	for _, m := range messages {
		list = append(list, ref(channelRef+"/messages/"+m))
	}
	return list
}
