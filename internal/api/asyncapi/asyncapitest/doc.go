// Package asyncapitest checks in tests that the messages of the stream match the AsyncAPI document,
// in both directions. Members, types, actions and reasons that the document does not name are
// errors.
//
// A test with one connection uses a [Conversation]. A Conversation also checks that the server
// refuses invalid messages of the client. [CheckServer] and [CheckClient] check single messages.
//
// # Concurrency
//
// All functions and methods are safe for concurrent use.
package asyncapitest
