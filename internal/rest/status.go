package rest

import (
	"net/http"

	"github.com/ruedahq/rueda/wire"
)

// statusOf is the error table of the contract: the HTTP status of a reason and
// what is said to people where the fault has no text of its own. A reason that
// is not in the table has no business on REST and is taken for an internal error.
func statusOf(r wire.Reason) (code int, msg string) {
	switch r {
	case wire.InvalidRequest:
		return http.StatusBadRequest, "A field is missing, too long or has control characters"
	case wire.BadJSON:
		return http.StatusBadRequest, "Body is not a JSON object"
	case wire.BadField:
		return http.StatusBadRequest, "Bad parameter"
	case wire.BadInstrument:
		return http.StatusBadRequest, "Not of the form SYMBOL|MARKET|TERM"
	case wire.UnsupportedGrant:
		return http.StatusBadRequest, "grant_type must be password or refresh_token"
	case wire.InvalidCredentials:
		return http.StatusUnauthorized, "Wrong username or password"
	case wire.InvalidRefreshToken:
		return http.StatusUnauthorized, "Refresh token not valid"
	case wire.InvalidToken:
		return http.StatusUnauthorized, "Access token not valid"
	case wire.TokenExpired:
		return http.StatusUnauthorized, "Access token expired"
	case wire.TokenRevoked:
		return http.StatusUnauthorized, "Access token revoked"
	case wire.Forbidden:
		return http.StatusForbidden, "Not allowed"
	case wire.NotEntitled:
		return http.StatusForbidden, "No right to this data"
	case wire.MFARequired:
		return http.StatusForbidden, "A second factor is needed"
	case wire.NotFound:
		return http.StatusNotFound, "Not found"
	case wire.UnknownChannel:
		return http.StatusNotFound, "The instrument has no such channel"
	case wire.MethodNotAllowed:
		return http.StatusMethodNotAllowed, "Method not allowed"
	case wire.NotAcceptable:
		return http.StatusNotAcceptable, "Not served in any accepted media type"
	case wire.Timeout:
		return http.StatusRequestTimeout, "The request did not arrive in time"
	case wire.EpochChanged:
		return http.StatusConflict, "The epoch changed"
	case wire.BodyTooBig:
		return http.StatusRequestEntityTooLarge, "Body too big"
	case wire.SubscriptionLimit:
		return http.StatusRequestEntityTooLarge, "Too many identifiers"
	case wire.URITooLong:
		return http.StatusRequestURITooLong, "URI too long"
	case wire.UnsupportedMedia:
		return http.StatusUnsupportedMediaType, "The body must be application/json in UTF-8, without a content encoding"
	case wire.UnknownInstrument:
		return http.StatusUnprocessableEntity, "Unknown instrument"
	case wire.RangeTooLarge:
		return http.StatusUnprocessableEntity, "Range too large"
	case wire.UnsupportedOption:
		return http.StatusUnprocessableEntity, "Not served with this option"
	case wire.ConnectionLimit:
		return http.StatusTooManyRequests, "Too many connections of this user"
	case wire.RateLimited:
		return http.StatusTooManyRequests, "Too many requests"
	case wire.TooManyFailures:
		return http.StatusTooManyRequests, "Too many failures"
	case wire.HeadersTooBig:
		return http.StatusRequestHeaderFieldsTooLarge, "Headers too big"
	case wire.NotImplemented:
		return http.StatusNotImplemented, "Transfer coding not known"
	case wire.Unavailable, wire.Overloaded, wire.ShuttingDown:
		return http.StatusServiceUnavailable, "Temporarily unavailable"
	}
	return http.StatusInternalServerError, "Internal error"
}
