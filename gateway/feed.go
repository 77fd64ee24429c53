package gateway

import "github.com/ruedahq/rueda/feed"

// Feed is a source of market events. It is restarted after its Run fails, unless the error has a
// method Final() bool that returns true. An instrument has one feed, the first that defines it. A
// market may have several.
type Feed struct {
	Name   string // in the log
	Source feed.Source
	// Late says that the source may publish nothing for long, such as one that waits for somebody
	// to connect. A gateway does not wait for it when it starts.
	Late bool
}
