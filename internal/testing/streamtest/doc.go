// Package streamtest has hubs, feeds and clients for the tests of packages hub and subscription.
//
// A [Client] is a subscriber that checks each message that it receives, as a careful client does. A
// [House] is a hub with a journal that can be closed, killed and opened again.
package streamtest
