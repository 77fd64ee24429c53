package rest

import (
	"net/http"

	"github.com/ruedahq/rueda/internal/api/reason"
	"github.com/ruedahq/rueda/wire"
)

// statusOf returns the HTTP status of a reason, and the message for a fault that has none. A reason
// that REST does not use counts as an internal error.
func statusOf(r wire.Reason) (code int, msg string) {
	if e, _ := reason.Of(r); e.Status != 0 {
		return e.Status, e.Msg
	}
	return http.StatusInternalServerError, "Internal error"
}
