package reason

import "github.com/ruedahq/rueda/wire"

var entries = [...]Entry{
	{
		Word: wire.InvalidRequest, Status: 400, Msg: "A field is missing, too long or has control characters",
		Cause:  "The request cannot be understood: a member of the body is missing or has the wrong type, or HTTP itself is malformed. A token in the URL is refused with it too.",
		Remedy: "Correct the request. details names the member. Send tokens in the Authorization header and credentials in the body.",
	},
	{
		Word: wire.BadJSON, Status: 400, Msg: "Body is not a JSON object", Socket: true,
		Cause:  "The body, or the message, is not one JSON object (or MessagePack map) in UTF-8 with unique names.",
		Remedy: "Send one object, without comments, trailing commas or repeated names.",
	},
	{
		Word: wire.BadField, Status: 400, Msg: "Bad parameter", Socket: true,
		Cause:  "A member of a message or a parameter of a query has a value that is not allowed, is empty, or is not known.",
		Remedy: "Correct the member that msg and details name. hint suggests the nearest name.",
	},
	{
		Word: wire.BadInstrument, Status: 400, Msg: "Not of the form SYMBOL|MARKET|TERM", Socket: true,
		Cause:  "An identifier does not have the form SYMBOL|MARKET|TERM.",
		Remedy: "Use the identifiers of GET /market/instruments exactly as they are written there.",
	},
	{
		Word: wire.UnsupportedGrant, Status: 400, Msg: "grant_type must be password or refresh_token",
		Cause:  "The value of grant_type is neither password nor refresh_token.",
		Remedy: "Log in with password, and renew tokens with refresh_token.",
	},
	{
		Word: wire.InvalidCredentials, Status: 401, Msg: "Wrong username or password",
		Cause:  "The username, the password or the one-time password is wrong, or the user is disabled. The answer is the same for all of them.",
		Remedy: "Ask the user for the credentials again. Do not retry with the same ones: failures are limited.",
	},
	{
		Word: wire.InvalidRefreshToken, Status: 401, Msg: "Refresh token not valid",
		Cause:  "The refresh token is unknown, expired, revoked, or was replaced by a successor that has been used.",
		Remedy: "Log in again. If two processes share a refresh token, let one of them renew it for both.",
	},
	{
		Word: wire.InvalidToken, Status: 401, Msg: "Access token not valid", Socket: true,
		Cause:  "The access token is missing or malformed, or no key of this gateway has signed it.",
		Remedy: "Send the access_token of POST /auth/token. Refresh it or log in again if it does not help.",
	},
	{
		Word: wire.TokenExpired, Status: 401, Msg: "Access token expired", Socket: true,
		Cause:  "The time of the access token is over.",
		Remedy: "Renew it with the refresh token, then repeat the request or reconnect.",
	},
	{
		Word: wire.TokenRevoked, Status: 401, Msg: "Access token revoked", Socket: true,
		Cause:  "The login of the token has ended: by the user, by an administrator, by a change of the password or second factor, or because a refresh token was used twice.",
		Remedy: "Log in again.",
	},
	{
		Word: wire.InvalidEnrolment, Status: 401, Msg: "The enrolment is not valid any more",
		Cause:  "The enrolment of a second factor is older than ten minutes, was used, or the user's password or second factor has changed since.",
		Remedy: "Begin again: POST /auth/otp with the action enrol.",
	},
	{
		Word: wire.InvalidOTP, Status: 401, Msg: "Wrong one-time password",
		Cause:  "The one-time password does not belong to the secret that is being enrolled.",
		Remedy: "Send the current code of the new secret. Check the clock of the device if it fails again.",
	},
	{
		Word: wire.AddressNotAllowed, Status: 403, Msg: "Not allowed from this address", Socket: true,
		Cause:  "The account is limited to certain networks, and the client's address is in none of them.",
		Remedy: "Connect from an allowed network. The tokens stay valid there.",
	},
	{
		Word: wire.Forbidden, Status: 403, Msg: "Not allowed", Socket: true, Lost: true,
		Cause:  "The token has no scope for this, or the page's origin is not allowed. Messages are lost for it if they are older than what may be replayed without the scope marketdata:history.",
		Remedy: "Do without it, or ask the broker for the scope that msg names.",
	},
	{
		Word: wire.NotEntitled, Status: 403, Msg: "No right to this data", Socket: true,
		Cause:  "The user has no right to this market data, or no longer.",
		Remedy: "Ask the broker for the right. Other instruments and channels are not affected.",
	},
	{
		Word: wire.MFARequired, Status: 403, Msg: "A second factor is needed",
		Cause:  "The password is correct, and the user has a second factor that was not sent.",
		Remedy: "Send otp together with the username and the password.",
	},
	{
		Word: wire.EnrolmentRequired, Status: 403, Msg: "A second factor must be enrolled first",
		Cause:  "The password is correct, but the user must have a second factor and has none.",
		Remedy: "Enrol one: POST /auth/otp with the action enrol.",
	},
	{
		Word: wire.PasswordChangeRequired, Status: 403, Msg: "The password must be changed first",
		Cause:  "The credentials are correct, and an operator has set the password for one use only.",
		Remedy: "Set another one: POST /auth/password. Its answer has the tokens.",
	},
	{
		Word: wire.SecondFactorLocked, Status: 403, Msg: "Too many one-time passwords were wrong, and a new password is needed",
		Cause:  "Ten one-time passwords in a row were wrong and came with the correct password. Somebody may know the password.",
		Remedy: "Set a new password with POST /auth/password, with a recovery code as otp, or ask an operator.",
	},
	{
		Word: wire.NotFound, Status: 404, Msg: "Not found",
		Cause:  "There is no such route or thing here, or it belongs to another user.",
		Remedy: "Check the path and the id. hint suggests the nearest path.",
	},
	{
		Word: wire.UnknownChannel, Status: 404, Msg: "The instrument has no such channel", Socket: true,
		Cause:  "The instrument does not have this channel. An index, for example, has no order book.",
		Remedy: "Use the channels that GET /market/instruments lists for the instrument.",
	},
	{
		Word: wire.MethodNotAllowed, Status: 405, Msg: "Method not allowed",
		Cause:  "The path exists, and does not have this method.",
		Remedy: "Use a method of the header Allow.",
	},
	{
		Word: wire.NotAcceptable, Status: 406, Msg: "Not served in any accepted media type",
		Cause:  "The header Accept allows none of the media types of this route.",
		Remedy: "Accept one of the media types that msg lists.",
	},
	{
		Word: wire.Timeout, Status: 408, Msg: "The request did not arrive in time",
		Cause:  "The body of the request took longer than 10 s to arrive.",
		Remedy: "Send the request again on a new connection.",
	},
	{
		Word: wire.Conflict, Status: 409, Msg: "Exists already, or was changed meanwhile",
		Cause:  "An operator adds something that exists, or replaces something that is not as expected any more.",
		Remedy: "Read it again and repeat the change if it is still needed.",
	},
	{
		Word: wire.EpochChanged, Status: 409, Msg: "The epoch changed", Lost: true,
		Cause:  "Sequence numbers began again: the gateway cannot prove that it assigned those of the given epoch. They name no messages now.",
		Remedy: "Over REST, ask again without epoch, after_sequence and cursor. On the stream, continue with the new epoch, and take what was missed from REST.",
	},
	{
		Word: wire.BodyTooBig, Status: 413, Msg: "Body too big",
		Cause:  "The body is longer than the route allows.",
		Remedy: "Send a shorter body.",
	},
	{
		Word: wire.SubscriptionLimit, Status: 413, Msg: "Too many identifiers", Socket: true,
		Cause:  "The connection has as many subscriptions as it may have, or a right is limited to a number of instruments and has none left.",
		Remedy: "Unsubscribe from something first, or subscribe on another connection. hint says how many are allowed.",
	},
	{
		Word: wire.URITooLong, Status: 414, Msg: "URI too long",
		Cause:  "The path and query are longer than 8 KiB.",
		Remedy: "Ask for less at a time.",
	},
	{
		Word: wire.UnsupportedMedia, Status: 415, Msg: "The body must be application/json in UTF-8, without a content encoding",
		Cause:  "The body has another media type than the route takes, is not in UTF-8, or is compressed.",
		Remedy: "Send application/json, or a form to the routes of /oauth, without compression.",
	},
	{
		Word: wire.UnknownInstrument, Status: 422, Msg: "Unknown instrument", Socket: true,
		Cause:  "No instrument with this identifier is listed.",
		Remedy: "Use the identifiers of GET /market/instruments. hint suggests the nearest one.",
	},
	{
		Word: wire.RangeTooLarge, Status: 422, Msg: "Range too large", Socket: true,
		Cause:  "The request covers more days or rows than one request may.",
		Remedy: "Ask for a shorter range. Use pages of history for a long one.",
	},
	{
		Word: wire.UnsupportedOption, Status: 422, Msg: "Not served with this option", Socket: true,
		Cause:  "The request is well formed, and this gateway does not serve it: it has no journal, or does not manage its users' passwords, or does not allow the option.",
		Remedy: "Leave the option out, or use a value that msg lists.",
	},
	{
		Word: wire.WeakPassword, Status: 422, Msg: "The new password is not accepted",
		Cause:  "The new password does not follow the gateway's policy, or is the current one.",
		Remedy: "Ask the user for another one. details says what is wrong with it.",
	},
	{
		Word: UpgradeRequired, Status: 426, Msg: "This is a WebSocket endpoint",
		Cause:  "The request for /stream is not a WebSocket handshake of version 13. Often a proxy has removed the header Upgrade.",
		Remedy: "Connect with a WebSocket client. Let the proxy pass the headers Upgrade and Connection.",
	},
	{
		Word: wire.RateLimited, Status: 429, Msg: "Too many requests", Socket: true,
		Cause:  "More requests or messages came than the limit allows.",
		Remedy: "Wait as long as Retry-After or retry_after says. RateLimit shows what is left.",
	},
	{
		Word: wire.ConnectionLimit, Status: 429, Msg: "Too many connections of this user", Socket: true,
		Cause:  "The user has as many open connections as are allowed.",
		Remedy: "Close another connection. A client that reconnects names its session, and so takes its old connection over.",
	},
	{
		Word: wire.TooManyFailures, Status: 429, Msg: "Too many failures", Socket: true,
		Cause:  "Too many wrong credentials came from the address or for the account, or too many messages before auth_token or in spite of rate_limited.",
		Remedy: "Wait as long as Retry-After or retry_after says, and correct the cause.",
	},
	{
		Word: wire.HeadersTooBig, Status: 431, Msg: "Headers too big",
		Cause:  "The headers of the request are longer than 16 KiB together.",
		Remedy: "Send fewer or shorter headers.",
	},
	{
		Word: wire.Internal, Status: 500, Msg: "Internal error", Socket: true,
		Cause:  "The gateway has failed at something that should not fail. On the stream it may be a resume or a start that could not be completed.",
		Remedy: "Try again later, and resume again on the stream. Give the operator the request_id.",
	},
	{
		Word: wire.NotImplemented, Status: 501, Msg: "Transfer coding not known",
		Cause:  "The request has a Transfer-Encoding other than chunked.",
		Remedy: "Send Content-Length, or chunked.",
	},
	{
		Word: wire.Unavailable, Status: 503, Msg: "Temporarily unavailable", Socket: true,
		Cause:  "Something that the request needs is not there: the user base or the database, a place in a queue, or the newest data on disk. On the stream it is about one identifier. The gateway may also be starting or shutting down.",
		Remedy: "Try again after as many seconds as Retry-After says, with a growing interval.",
	},
	{
		Word: wire.Overloaded, Status: 503, Msg: "Temporarily unavailable", Socket: true,
		Cause:  "The gateway cannot check tokens at present, lacks rows of its cluster, has no memory left for the connection, or an operator has closed it.",
		Remedy: "Reconnect after a growing interval, and resume.",
	},
	{
		Word: wire.ShuttingDown, Status: 503, Msg: "Temporarily unavailable", Socket: true, Warning: true,
		Cause:  "The gateway is being stopped, for example for an update.",
		Remedy: "Reconnect after reconnect_in_ms, and resume.",
	},
	{
		Word: wire.BadMessage, Socket: true,
		Cause:  "The message has no action, or is binary where text was agreed on.",
		Remedy: "Send one object with a member action in a text frame.",
	},
	{
		Word: wire.UnknownAction, Socket: true,
		Cause:  "The action of the message does not exist.",
		Remedy: "Use an action of this contract. hint suggests the nearest one.",
	},
	{
		Word: wire.NotAuthenticated, Socket: true,
		Cause:  "A message other than auth_token came before the connection was authenticated.",
		Remedy: "Send auth_token first. Other messages may follow immediately.",
	},
	{
		Word: wire.SubjectMismatch, Socket: true,
		Cause:  "The new token belongs to another user than the connection.",
		Remedy: "Send a token of the same user, or open another connection.",
	},
	{
		Word: wire.AuthTimeout, Socket: true,
		Cause:  "No auth_token came within 10 s.",
		Remedy: "Reconnect, and send auth_token immediately.",
	},
	{
		Word: wire.Replaced, Socket: true,
		Cause:  "A newer connection of the user has the same session name.",
		Remedy: "Do not reconnect: the newer connection has taken over. Give each program a session name of its own. If an earlier connection of the same program broke off in the last minute, it may be the one: connect once more.",
	},
	{
		Word: wire.MessageTooBig, Socket: true,
		Cause:  "A message is longer than limits.message_bytes, or was so after decompression.",
		Remedy: "Spread the subscriptions over several messages.",
	},
	{
		Word: wire.PongTimeout, Socket: true,
		Cause:  "A ping of the server got no pong within 30 s.",
		Remedy: "Reconnect, and resume. Answer each ping, also while the client is busy.",
	},
	{
		Word: wire.SlowClient, Socket: true, Warning: true,
		Cause:  "The client reads more slowly than its messages come. As a warning it says what is conflated; as an error it ends the connection.",
		Remedy: "Read faster, or subscribe to less or with conflate. After a close, reconnect and resume.",
	},
	{
		Word: TokenExpiring, Warning: true,
		Cause:  "The access token of the connection ends in expires_in seconds.",
		Remedy: "Renew the token over REST, which extends the connection too, or send auth_token with a new one.",
	},
	{
		Word: BufferExceeded, Lost: true,
		Cause:  "The missed messages are older than those which the gateway still has.",
		Remedy: "Take the range from pages of history if it matters. Live messages continue.",
	},
	{
		Word: Ahead, Lost: true,
		Cause:  "The client named a sequence number that the gateway has not assigned yet.",
		Remedy: "Resume with the numbers that were received. Live messages continue.",
	},
}
