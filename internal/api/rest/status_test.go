package rest

import (
	"testing"

	"github.com/ruedahq/rueda/wire"
)

// TestStatusOf checks the error table of the protocol, including reasons that no route uses.
func TestStatusOf(t *testing.T) {
	for code, reasons := range map[int][]wire.Reason{
		400: {wire.InvalidRequest, wire.BadJSON, wire.BadField, wire.BadInstrument, wire.UnsupportedGrant},
		401: {wire.InvalidCredentials, wire.InvalidRefreshToken, wire.InvalidToken, wire.TokenExpired, wire.TokenRevoked},
		403: {wire.Forbidden, wire.NotEntitled, wire.MFARequired},
		404: {wire.NotFound, wire.UnknownChannel},
		405: {wire.MethodNotAllowed},
		406: {wire.NotAcceptable},
		408: {wire.Timeout},
		409: {wire.EpochChanged},
		413: {wire.BodyTooBig, wire.SubscriptionLimit},
		414: {wire.URITooLong},
		415: {wire.UnsupportedMedia},
		422: {wire.UnknownInstrument, wire.RangeTooLarge, wire.UnsupportedOption},
		429: {wire.RateLimited, wire.TooManyFailures, wire.ConnectionLimit},
		431: {wire.HeadersTooBig},
		500: {wire.Internal, "", "no_such_reason", wire.PongTimeout},
		501: {wire.NotImplemented},
		503: {wire.Unavailable, wire.Overloaded, wire.ShuttingDown},
	} {
		for _, reason := range reasons {
			if got, msg := statusOf(reason); got != code || msg == "" {
				t.Errorf("%q: got %d %q, want %d", reason, got, msg, code)
			}
		}
	}
}
