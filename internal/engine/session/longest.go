package session

import "github.com/ruedahq/rueda/internal/engine/subscription"

// Bounds of the messages of the server. They are higher than what the tests find.
const (
	longestBook  = 10 << 20 // an update that replaces a book of book.MaxLevels has 8.8 MiB
	longestEntry = 1 << 10  // what an answer may say about one identifier
	longestEcho  = 8        // times the length of what is repeated from a message of the client
	longestLost  = subscription.MaxLost * 256
)

// leastNamed is how many identifiers an unsubscribe or resync may have at least. With a higher
// limit of subscriptions it may have as many as that.
const leastNamed = 2000

// longestMessage returns how many bytes a message to a client with these limits may have, in every
// format and without compression.
func longestMessage(subscriptions, messageBytes int) int {
	return max(longestBook, max(subscriptions, leastNamed)*longestEntry+messageBytes*longestEcho+longestLost)
}
