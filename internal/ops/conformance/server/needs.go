package server

import (
	"slices"
	"strings"
	"time"
)

// Reasons why a conversation is not run. All begin after "needs".
const (
	needFeed    = "a feed for instruments of its own: --feed ADDRESS"
	needUsers   = "users of its own: --admin URL, with the token of an operator"
	needFaults  = "a gateway with faults on request, such as rueda dev"
	needNone    = "a gateway that refuses faults on request"
	needBasic   = "a user with quotes only: --basic NAME"
	needToken   = "an expired token, or one that cannot be checked now"
	needLife    = "an access token that lives for minutes"
	needCheck   = "checks of tokens that take seconds"
	needDelay   = "delayed data"
	needHours   = "hours of waiting"
	needSetting = "another configuration: order book patterns, no journal, short history, a shutdown, or a new epoch"
	needSocket  = "a socket that stops at a certain byte"
)

// needs returns what a conversation needs that this gateway does not have, "" if it can be run.
func (c *Conversation) needs(g *Gateway) string {
	switch c.Name {
	case "rate-start", "subscribe-unsupported-option": // start is refused without a journal
		return needSetting
	case "rights-at-reauthentication", "token-revoked-while-checked":
		return needCheck
	case "sim-not-development":
		if g.dev {
			return needNone
		}
	}
	if c.Duration() > longest {
		return needHours
	}
	for i := range c.Steps {
		if reason := needsOf(&c.Steps[i], g, c); reason != "" {
			return reason
		}
	}
	if c.ownUsers() && g.users == nil {
		return needUsers
	}
	return ""
}

// needsOf returns what a step of c needs.
func needsOf(st *step, g *Gateway, c *Conversation) string {
	if st.Verb == "set" {
		return needsOfSetting(st, g)
	}
	switch {
	case isEvent(st) && g.feed == "", expectsData(st) && g.feed == "" && !c.ofWholeMarket():
		return needFeed
	case !c.isLive && (st.Verb == "stop" || st.Verb == "read"):
		return needSocket
	case st.Verb == "drain", st.Verb == "epoch":
		return needSetting
	case st.Verb == "user" && strings.Contains(st.Rest, "/late"):
		return needDelay
	case st.Verb == "token" && strings.Contains(c.text(), "token_expiring"):
		return needLife
	case !g.dev && c.isLive && strings.Contains(st.Rest, `"action":"sim"`):
		return needFaults
	}
	if c.ownUsers() {
		return ""
	}
	for _, token := range tokensOf(*st) {
		if _, known := g.tokens[token]; !known && slices.Contains([]string{"demo", "demo2", "revoked", "basic", "expired", "overloaded"}, token) {
			if token == "basic" {
				return needBasic
			}
			return needToken
		}
	}
	for _, id := range []string{ggal24, ggalCI, al30CI, fakeCI, indexCI} {
		if strings.Contains(st.Rest, id) && g.instruments[id] == "" && g.feed == "" {
			return needFeed
		}
	}
	return ""
}

func needsOfSetting(st *step, g *Gateway) string {
	name, _, _ := strings.Cut(st.Rest, " ")
	switch name {
	case "dev":
		if !g.dev {
			return needFaults
		}
	case "verify", "message_bytes", "connections", "subscriptions": // see talk.set and ownUsers
	case "delay":
		return needDelay
	case "timezone":
		return needHours
	case "max_waiting":
		return needSocket
	default:
		return needSetting
	}
	return ""
}

// text returns all lines.
func (c *Conversation) text() string {
	var b strings.Builder
	for _, st := range c.Steps {
		b.WriteString(st.Rest + "\n")
	}
	return b.String()
}

// ownUsers reports whether a conversation changes users, or ends their logins.
func (c *Conversation) ownUsers() bool {
	return slices.ContainsFunc(c.Steps, func(st step) bool {
		return slices.Contains([]string{"user", "token", "revoke"}, st.Verb) ||
			st.Verb == "set" && (strings.HasPrefix(st.Rest, "connections ") || strings.HasPrefix(st.Rest, "subscriptions "))
	})
}

// ofWholeMarket reports whether a conversation is about the instruments that the gateway has.
func (c *Conversation) ofWholeMarket() bool { return c.Name == "sim-market" }

// ownInstruments reports whether a conversation has instruments of its own.
func (c *Conversation) ownInstruments(g *Gateway) bool {
	return g.feed != "" && !c.ofWholeMarket() && slices.ContainsFunc(c.Steps, func(st step) bool {
		return isEvent(&st) || expectsData(&st) || strings.Contains(st.Rest, "|BYMA|") || strings.Contains(st.Rest, "|SIM|")
	})
}

// alignment returns at what times a conversation begins: at multiples of the longest interval that
// it waits for. 0: at any time.
func (c *Conversation) alignment() (most time.Duration) {
	if !slices.ContainsFunc(c.Steps, func(st step) bool { return isEvent(&st) }) {
		return 0
	}
	for _, st := range c.Steps {
		for member, d := range map[string]time.Duration{`"conflate":"1s"`: time.Second, `"bars":[`: time.Minute, `"interval":"5m"`: 5 * time.Minute} {
			if st.Verb == ">" && strings.Contains(st.Rest, member) {
				most = max(most, d)
			}
		}
	}
	return most
}
