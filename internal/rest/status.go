package rest

import (
	"net/http"

	"github.com/ruedahq/rueda/wire"
)

// statusOf returns the HTTP status of a reason, and the text for a fault without its own. A reason
// that is not in the table does not belong on REST and is an internal error.
func statusOf(r wire.Reason) (code int, msg string) {
	for _, s := range [...]struct {
		reason wire.Reason
		code   int
		msg    string
	}{
		{wire.InvalidRequest, http.StatusBadRequest, "A field is missing, too long or has control characters"},
		{wire.BadJSON, http.StatusBadRequest, "Body is not a JSON object"},
		{wire.BadField, http.StatusBadRequest, "Bad parameter"},
		{wire.BadInstrument, http.StatusBadRequest, "Not of the form SYMBOL|MARKET|TERM"},
		{wire.UnsupportedGrant, http.StatusBadRequest, "grant_type must be password or refresh_token"},
		{wire.InvalidCredentials, http.StatusUnauthorized, "Wrong username or password"},
		{wire.InvalidRefreshToken, http.StatusUnauthorized, "Refresh token not valid"},
		{wire.InvalidToken, http.StatusUnauthorized, "Access token not valid"},
		{wire.TokenExpired, http.StatusUnauthorized, "Access token expired"},
		{wire.TokenRevoked, http.StatusUnauthorized, "Access token revoked"},
		{wire.InvalidEnrolment, http.StatusUnauthorized, "The enrolment is not valid any more"},
		{wire.InvalidOTP, http.StatusUnauthorized, "Wrong one-time password"},
		{wire.AddressNotAllowed, http.StatusForbidden, "Not allowed from this address"},
		{wire.Forbidden, http.StatusForbidden, "Not allowed"},
		{wire.NotEntitled, http.StatusForbidden, "No right to this data"},
		{wire.MFARequired, http.StatusForbidden, "A second factor is needed"},
		{wire.EnrolmentRequired, http.StatusForbidden, "A second factor must be enrolled first"},
		{wire.NotFound, http.StatusNotFound, "Not found"},
		{wire.UnknownChannel, http.StatusNotFound, "The instrument has no such channel"},
		{wire.MethodNotAllowed, http.StatusMethodNotAllowed, "Method not allowed"},
		{wire.NotAcceptable, http.StatusNotAcceptable, "Not served in any accepted media type"},
		{wire.Timeout, http.StatusRequestTimeout, "The request did not arrive in time"},
		{wire.EpochChanged, http.StatusConflict, "The epoch changed"},
		{wire.BodyTooBig, http.StatusRequestEntityTooLarge, "Body too big"},
		{wire.SubscriptionLimit, http.StatusRequestEntityTooLarge, "Too many identifiers"},
		{wire.URITooLong, http.StatusRequestURITooLong, "URI too long"},
		{wire.UnsupportedMedia, http.StatusUnsupportedMediaType, "The body must be application/json in UTF-8, without a content encoding"},
		{wire.UnknownInstrument, http.StatusUnprocessableEntity, "Unknown instrument"},
		{wire.RangeTooLarge, http.StatusUnprocessableEntity, "Range too large"},
		{wire.UnsupportedOption, http.StatusUnprocessableEntity, "Not served with this option"},
		{wire.WeakPassword, http.StatusUnprocessableEntity, "The new password is not accepted"},
		{wire.ConnectionLimit, http.StatusTooManyRequests, "Too many connections of this user"},
		{wire.RateLimited, http.StatusTooManyRequests, "Too many requests"},
		{wire.TooManyFailures, http.StatusTooManyRequests, "Too many failures"},
		{wire.HeadersTooBig, http.StatusRequestHeaderFieldsTooLarge, "Headers too big"},
		{wire.NotImplemented, http.StatusNotImplemented, "Transfer coding not known"},
		{wire.Unavailable, http.StatusServiceUnavailable, "Temporarily unavailable"},
		{wire.Overloaded, http.StatusServiceUnavailable, "Temporarily unavailable"},
		{wire.ShuttingDown, http.StatusServiceUnavailable, "Temporarily unavailable"},
	} {
		if s.reason == r {
			return s.code, s.msg
		}
	}
	return http.StatusInternalServerError, "Internal error"
}
