// Package reason describes the words that errors, warnings and lists of lost messages use as their
// reason: when each occurs, and what a client should do about it. REST takes its statuses from
// here. The OpenAPI documents and the pages about reasons are generated from it.
package reason

import "github.com/ruedahq/rueda/wire"

// Reason words that package wire does not use.
const (
	UpgradeRequired wire.Reason = "upgrade_required"
	TokenExpiring   wire.Reason = "token_expiring"
	BufferExceeded  wire.Reason = "buffer_exceeded"
	Ahead           wire.Reason = "ahead"
)

// Entry describes a reason word.
type Entry struct {
	Word   wire.Reason
	Status int    // of an error of REST; 0: REST does not use the word
	Msg    string // of an error of REST without a message of its own

	Socket  bool // an Error message of the stream may have it
	Warning bool // a Warning message of the stream may have it
	Lost    bool // it may say why messages are lost

	Cause  string // when it occurs
	Remedy string // what a client does
}

// All returns the entries of all words: first those of REST by status, then those that only the
// stream uses. Callers must not change the slice.
func All() []Entry { return entries[:] }

// Of returns the entry of a word. ok is false if there is none.
func Of(word wire.Reason) (e Entry, ok bool) {
	for i := range entries {
		if entries[i].Word == word {
			return entries[i], true
		}
	}
	return Entry{}, false
}

// Words returns the words for whose entries accept returns true, in the order of All.
func Words(accept func(Entry) bool) (words []string) {
	for _, e := range entries {
		if accept(e) {
			words = append(words, string(e.Word))
		}
	}
	return words
}
