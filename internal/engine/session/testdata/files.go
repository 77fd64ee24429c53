// Package testdata has the conversations of the protocol, which the tests of package session run
// and rueda conformance server runs against gateways.
package testdata

import "embed"

// Conversations has the files *.talk. Load reads them, and package internal/testing/talk describes
// them.
//
//go:embed *.talk
var Conversations embed.FS
