// Package talk runs protocol conversations: plain text files that state what a client sends, what
// it receives, and when. The same files run against the session alone and over a server's socket,
// and docs/conversations.md shows them.
//
// # Grammar
//
// Each line is a step. The first line is a comment that states the rule of the conversation. Empty
// lines and further comments are ignored.
//
//	# TEXT                      comment
//	> TEXT                      the client sends a text message
//	< PATTERN                   the client gets this as its next message, now
//	closed CODE [REASON]        the client gets this close, now
//	nothing                     no event was received that no step has named
//	after DURATION              time passes; an event that arrives earlier is a failure
//
//	login [TOKEN]               auth_token and its Success in one line; TOKEN is demo by default
//	connect [TOKEN]             connects, with or without a Bearer token in the handshake
//	offer FORMAT [deflate]      the client's next connection requests json, batch or msgpack
//	send text TEXT              the client sends a text message, whatever was negotiated
//	send binary                 the client sends a binary message that is not MessagePack
//	send hex BYTES              the client sends that binary message
//	send N bytes                the client sends a text message of N bytes
//	silent                      from now on pings are shown, and not answered automatically
//	stop reading, read          the client stops and resumes reading from its socket
//	hang up                     the client ends the connection
//
//	set NAME VALUE              a setting of the server, before the first connection; see World.set
//	user NAME KEY=VALUE...      defines a user, or changes its rights under open connections:
//	                            scopes=read,depth,wildcard,admin rights=BYMA/trades/quotes/book5,SIM/quotes/late900/max3/from1h/until2h
//	                            connections=N subscriptions=N rate=N
//	token NAME USER FAMILY TIME a token that ends after that time
//	trade ID PRICE SIZE         a trade is published; their ids are 1, 2, 3 ...
//	late DURATION ID PRICE SIZE a trade that occurred that long ago is published
//	cancel ID TRADE PRICE SIZE  the trade with that id is cancelled
//	correct ID TRADE PRICE SIZE its price and size are changed to these
//	reference ID CLOSE SETTLEMENT INTEREST
//	                            reference figures are published; 0: none
//	quote ID BID SIZE ASK SIZE  a quote is published
//	book ID BID SIZE ASK SIZE   a whole book of one level a side is published
//	status ID PHASE [REASON]    a trading status or a gap is published
//	list ID                     an instrument is listed
//	revoke FAMILY               a token family is revoked
//	revoke user USER            all token families of a user are revoked
//	extend FAMILY DURATION      a token family is refreshed; its newest token ends after that
//	drain DURATION              the server shuts down over that time
//
// In a PATTERN "..." stands for any text, and all other text must match exactly. If there is more
// than one client, a line may begin with the name of a client and a colon ("a: > ..."). A line may
// begin with a count ("60 x > ..."). A client connects at its first line.
//
// Clients answer pings automatically and do not show them, unless they are silent.
//
// Every message is shown as JSON on a line of its own, whatever its format on the wire: batched,
// MessagePack or compressed. A frame in another format than the negotiated one is a failure.
//
// There are two users: demo has all rights, and basic has quotes only and may not use patterns.
// With "set dev true" the server is a development gateway, whose market knows only the faults halt
// and speed.
// The tokens demo, demo2 (families f1 and f2) and basic (f3) are valid for a day. The tokens
// expired, revoked and overloaded have these results, and any other token is invalid. The
// instruments are GGAL|BYMA|24hs, GGAL|BYMA|CI, AL30|BYMA|CI, FAKE|SIM|CI and INDEX|BYMA|CI, which
// has no book and has its own quotes, as GGAL|BYMA|CI has.
package talk
