// Package wire is the contract with clients as Go types and functions: what docs/protocol.md
// says in words. It decodes strictly what clients and feeds send, and appends what they get.
//
// json.go reads JSON by RFC 8259 and stricter; client.go a client's messages on the stream,
// line.go the lines of a feed or recording, rest.go the bodies of requests. data.go writes the
// messages of the market, control.go those of the session, rest.go the bodies of answers. fault.go
// is the one table of reasons; the HTTP status of a reason is internal/rest's alone.
//
// Everything is a pure function of its arguments: no goroutine, no clock, no I/O. Encoders
// have the form AppendX(b []byte, ...) []byte and keep nothing; none of those
// for data allocates. Numbers never pass through floating point.
package wire
