package main

import (
	"testing"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/feed/feedtest"
)

func TestClockIsAFeed(t *testing.T) {
	feedtest.Run(t, func(*testing.T) feed.Source { return clock{} }, feedtest.Options{Events: 2})
}
