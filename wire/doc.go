// Package wire implements the messages of docs/protocol.md as Go types and functions. It decodes
// what clients and feeds send, strictly, and encodes what clients receive.
//
// A server reads a client message with [ReadMessage] and then the fields of its action, for example
// with [Message.Subscribe]. Every error is a [Fault] with a stable [Reason]. Encoders have the form
// AppendX(b []byte, ...) []byte, append to b and keep no reference to their arguments. The encoders
// of data messages, such as [AppendTrade], do not allocate. A [Transcoder] converts encoded
// messages to the other formats that clients may choose.
//
// Feeds and recordings are lines of JSON: [LineDecoder] decodes a [Line], [AppendLine] and
// [AppendDefinition] encode one.
//
// The bodies of requests and answers over HTTP are in rest.go and oauth.go. fault.go has the table
// of reasons with their codes on the socket; the HTTP status of a reason is defined in
// internal/api/rest.
//
// All functions depend on their arguments alone: no goroutines, no clock, no I/O. Numbers are never
// converted to floating point.
package wire
