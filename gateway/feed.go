package gateway

import "github.com/ruedahq/rueda/feed"

// Feed is a source of market events. It is restarted after its Run fails, unless the error has a
// method Final() bool that returns true. An instrument has one feed, the first that defines it. A
// market may have several.
type Feed struct {
	Name   string // name in the log
	Source feed.Source
	// Late means that the source may publish nothing for a long time, such as one that waits for a
	// connection. A gateway does not wait for it at the start.
	Late bool
}
