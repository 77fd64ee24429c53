package wire

import (
	"strconv"
)

// Reason is the stable word of an error. Clients branch on it.
type Reason string

// Reasons of sections 8 (socket) and 9 (REST) of docs/protocol.md.
const (
	BadJSON             Reason = "bad_json"
	BadMessage          Reason = "bad_message"
	UnknownAction       Reason = "unknown_action"
	BadField            Reason = "bad_field"
	BadInstrument       Reason = "bad_instrument"
	NotAuthenticated    Reason = "not_authenticated"
	InvalidToken        Reason = "invalid_token"
	TokenExpired        Reason = "token_expired"
	TokenRevoked        Reason = "token_revoked"
	AddressNotAllowed   Reason = "address_not_allowed"
	Forbidden           Reason = "forbidden"
	NotEntitled         Reason = "not_entitled"
	SubjectMismatch     Reason = "subject_mismatch"
	UnknownInstrument   Reason = "unknown_instrument"
	UnknownChannel      Reason = "unknown_channel"
	AuthTimeout         Reason = "auth_timeout"
	Replaced            Reason = "replaced"
	SubscriptionLimit   Reason = "subscription_limit"
	MessageTooBig       Reason = "message_too_big"
	UnsupportedOption   Reason = "unsupported_option"
	RangeTooLarge       Reason = "range_too_large"
	RateLimited         Reason = "rate_limited"
	ConnectionLimit     Reason = "connection_limit"
	TooManyFailures     Reason = "too_many_failures"
	Internal            Reason = "internal"
	ShuttingDown        Reason = "shutting_down"
	Overloaded          Reason = "overloaded"
	PongTimeout         Reason = "pong_timeout"
	SlowClient          Reason = "slow_client"
	InvalidRequest      Reason = "invalid_request"
	UnsupportedGrant    Reason = "unsupported_grant_type"
	InvalidCredentials  Reason = "invalid_credentials"
	InvalidRefreshToken Reason = "invalid_refresh_token"
	NotFound            Reason = "not_found"
	Conflict            Reason = "conflict"
	MethodNotAllowed    Reason = "method_not_allowed"
	NotAcceptable       Reason = "not_acceptable"
	Timeout             Reason = "timeout"
	BodyTooBig          Reason = "body_too_big"
	URITooLong          Reason = "uri_too_long"
	UnsupportedMedia    Reason = "unsupported_media_type"
	HeadersTooBig       Reason = "headers_too_big"
	Unavailable         Reason = "unavailable"
)

// ReasonPages is the path of the pages about reasons, each of which ends with its word.
const ReasonPages = "/docs/reasons/"

// Fault is an error as a client receives it, on the socket or over REST.
type Fault struct {
	Reason     Reason
	Msg        string // a sentence for people; "": the default of the reason
	Hint       string // what to do next; may be empty
	RetryAfter int    // seconds after which a retry may succeed; 0: unknown
}

// Error implements error. It returns the reason and the message.
func (f *Fault) Error() string {
	if f.Msg != "" {
		return string(f.Reason) + ": " + f.Msg
	}
	return string(f.Reason)
}

// NewFault returns a fault with its own message.
func NewFault(r Reason, msg string) *Fault { return &Fault{Reason: r, Msg: msg} }

// SocketError is a row of the socket's error table.
type SocketError struct {
	Code   int    // as in HTTP
	Msg    string // default text
	Closes bool   // the connection is then closed with 4000 + Code
	Retry  bool   // a retry may succeed later
}

// Socket returns the row of a reason in the error table of docs/protocol.md, section 8.
func (r Reason) Socket() SocketError {
	switch r {
	case BadJSON:
		return SocketError{Code: 400, Msg: "Not a JSON object"}
	case BadMessage:
		return SocketError{Code: 400, Msg: "Message not understood"}
	case UnknownAction:
		return SocketError{Code: 400, Msg: "Unknown action"}
	case BadField:
		return SocketError{Code: 400, Msg: "Bad field"}
	case BadInstrument:
		return SocketError{Code: 400, Msg: "Not of the form SYMBOL|MARKET|TERM"}
	case NotAuthenticated:
		return SocketError{Code: 401, Msg: "Authenticate first"}
	case InvalidToken:
		return SocketError{Code: 401, Msg: "Access token not valid", Closes: true}
	case TokenExpired:
		return SocketError{Code: 401, Msg: "Access token expired", Closes: true}
	case TokenRevoked:
		return SocketError{Code: 401, Msg: "Access token revoked", Closes: true}
	case AddressNotAllowed:
		return SocketError{Code: 403, Msg: "Not allowed from this address", Closes: true}
	case Forbidden:
		return SocketError{Code: 403, Msg: "Not allowed"}
	case NotEntitled:
		return SocketError{Code: 403, Msg: "No right to this data"}
	case SubjectMismatch:
		return SocketError{Code: 403, Msg: "The token belongs to another user"}
	case UnknownInstrument:
		return SocketError{Code: 404, Msg: "Unknown instrument"}
	case UnknownChannel:
		return SocketError{Code: 404, Msg: "Unknown channel"}
	case AuthTimeout:
		return SocketError{Code: 408, Msg: "No auth_token in time", Closes: true, Retry: true}
	case Replaced:
		return SocketError{Code: 409, Msg: "Session taken over by a newer connection", Closes: true}
	case SubscriptionLimit:
		return SocketError{Code: 413, Msg: "Too many subscriptions"}
	case MessageTooBig:
		return SocketError{Code: 413, Msg: "Message too big", Closes: true}
	case UnsupportedOption:
		return SocketError{Code: 422, Msg: "Option not supported"}
	case RangeTooLarge:
		return SocketError{Code: 422, Msg: "Range too large"}
	case RateLimited:
		return SocketError{Code: 429, Msg: "Too many messages", Retry: true}
	case ConnectionLimit:
		return SocketError{Code: 429, Msg: "Too many connections", Closes: true, Retry: true}
	case TooManyFailures:
		return SocketError{Code: 429, Msg: "Too many failures", Closes: true, Retry: true}
	case ShuttingDown:
		return SocketError{Code: 503, Msg: "Shutting down", Closes: true, Retry: true}
	case Overloaded:
		return SocketError{Code: 503, Msg: "Overloaded", Closes: true, Retry: true}
	case Unavailable: // of an item
		return SocketError{Code: 503, Msg: "Temporarily unavailable", Retry: true}
	case PongTimeout:
		return SocketError{Code: 504, Msg: "No pong in time", Closes: true, Retry: true}
	case SlowClient:
		return SocketError{Code: 507, Msg: "Reading too slowly", Closes: true, Retry: true}
	}
	return SocketError{Code: 500, Msg: "Internal error", Closes: true, Retry: true}
}

// Extra appends further members of an Error, each with a leading comma.
type Extra func(b []byte) []byte

// AppendError appends an Error message. id is the request's id as sent, empty for none. extra may
// be nil.
func AppendError(b []byte, f *Fault, id []byte, extra Extra) []byte {
	e := f.Reason.Socket()
	b = append(b, `{"type":"Error","code":`...)
	b = strconv.AppendInt(b, int64(e.Code), 10)
	b = append(b, `,"reason":"`...)
	b = append(b, f.Reason...)
	b = append(b, `","msg":`...)
	msg := f.Msg
	if msg == "" {
		msg = e.Msg
	}
	b = AppendString(b, msg)
	b = appendID(b, id)
	b = append(b, `,"retry":`...)
	b = strconv.AppendBool(b, e.Retry)
	if f.RetryAfter > 0 {
		b = append(b, `,"retry_after":`...)
		b = strconv.AppendInt(b, int64(f.RetryAfter), 10)
	}
	if f.Hint != "" {
		b = append(b, `,"hint":`...)
		b = AppendString(b, f.Hint)
	}
	if extra != nil {
		b = extra(b)
	}
	return append(b, '}')
}

func appendID(b []byte, id []byte) []byte {
	if len(id) == 0 {
		return b
	}
	b = append(b, `,"id":`...)
	return append(b, id...)
}
