package wire

import "slices"

// Actions of client messages. The server sends ping and pong too.
const (
	ActionAuthToken     = "auth_token"
	ActionSubscribe     = "subscribe"
	ActionUnsubscribe   = "unsubscribe"
	ActionSubscriptions = "subscriptions"
	ActionResync        = "resync"
	ActionPing          = "ping"
	ActionPong          = "pong"
	ActionSim           = "sim"
)

// actions are all of them, in the order of their documentation.
var actions = [...]string{
	ActionAuthToken, ActionSubscribe, ActionUnsubscribe, ActionSubscriptions, ActionResync,
	ActionPing, ActionPong, ActionSim,
}

// Actions returns the actions that a client may request. Sim, the last one, is only for development
// gateways.
func Actions() []string { return slices.Clone(actions[:]) }

// IsAction reports whether a client may request an action of this name.
func IsAction(name string) bool { return slices.Contains(actions[:], name) }
