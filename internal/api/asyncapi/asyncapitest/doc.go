// Package asyncapitest checks in tests that the messages of the stream are as the AsyncAPI document
// has them, in both directions. Members, types, actions and reasons that the document does not name
// are errors.
//
// A test with one connection uses a [Conversation]. It also checks that a message of the client
// that the document does not allow is refused. [CheckServer] and [CheckClient] check single
// messages.
//
// # Concurrency
//
// All functions and methods are safe for concurrent use.
package asyncapitest
