// Package talk runs protocol conversations: plain text files that say what a client sends, what it
// gets, and when. The same files run against the bare session, over a server's socket, and stand in
// docs/conversations.md.
//
// # Grammar
//
// One line is one step. The first line is a comment that states the rule the file shows. Empty
// lines and further comments count for nothing.
//
//	# TEXT                      comment
//	> TEXT                      the client sends a text message
//	< PATTERN                   the client gets this as its next message, now
//	closed CODE [REASON]        the client gets this close, now
//	nothing                     nothing has come that was not named
//	after DURATION              time passes; what comes earlier than that is a failure
//
//	login [TOKEN]               auth_token and its Success in one line; TOKEN is demo if left out
//	connect [TOKEN]             connects, with a Bearer token at the handshake or none
//	offer FORMAT [deflate]      the client's next connection asks for json, batch or msgpack
//	send text TEXT              the client sends a text message, whatever was agreed on
//	send binary                 the client sends a binary message, which is none
//	send hex BYTES              the client sends that binary message
//	send N bytes                the client sends a text message of N bytes
//	silent                      from here on pings are shown, and answered by hand
//	stop reading, read          the client takes nothing from its socket, and again everything
//	hang up                     the client ends the connection
//
//	set NAME VALUE              a setting of the server, before the first connection; see World.set
//	user NAME KEY=VALUE...      defines a user, or changes its rights under open connections:
//	                            scopes=read,depth,wildcard,admin rights=BYMA/trades/quotes/book5,SIM/quotes/late900/max3/from1h/until2h
//	                            connections=N subscriptions=N rate=N
//	token NAME USER FAMILY TIME a token that ends after that time
//	trade ID PRICE SIZE         a trade is published; their ids are 1, 2, 3 ...
//	late DURATION ID PRICE SIZE one that occurred before that time
//	cancel ID TRADE PRICE SIZE  a trade of that id is cancelled
//	correct ID TRADE PRICE SIZE its price and size become these
//	reference ID CLOSE SETTLEMENT INTEREST
//	                            reference figures are published; 0 is not told
//	quote ID BID SIZE ASK SIZE  a quote is published
//	book ID BID SIZE ASK SIZE   a whole book of one level a side is published
//	status ID PHASE [REASON]    a trading status is published, or a gap
//	list ID                     an instrument is listed
//	revoke FAMILY               a token family is revoked
//	revoke user USER            all of a user's are
//	extend FAMILY DURATION      a token family is refreshed; its newest token ends after that
//	drain DURATION              the server shuts down over that time
//
// In a PATTERN "..." stands for any text; all else is meant to the letter. The lines of a client
// may begin with a name and a colon ("a: > ..."), where there is more than one client, and with a
// count ("60 x > ..."). A client connects with its first line.
//
// Clients answer pings by themselves and do not show them, unless they are silent.
//
// Every message is shown as JSON, one a line, in whatever format it went: in a batch with others,
// in MessagePack, compressed. A frame in another format than agreed on is a failure.
//
// There are two users: demo may do all, basic sees quotes alone and may not use patterns. With "set
// dev true" it is a development gateway, whose market knows the fault halt alone. Tokens: demo and
// demo2 (families f1 and f2), basic (f3), for a day; expired, revoked and overloaded are answered
// as such, any other is not valid. The instruments are GGAL|BYMA|24hs, GGAL|BYMA|CI, AL30|BYMA|CI,
// FAKE|SIM|CI and INDEX|BYMA|CI, which has no book and has its own quotes, as GGAL|BYMA|CI has.
package talk
