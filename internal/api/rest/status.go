package rest

import (
	"net/http"

	"github.com/ruedahq/rueda/internal/api/reason"
	"github.com/ruedahq/rueda/wire"
)

// statusOf returns the HTTP status of a reason, and the text for a fault without its own. A reason
// that does not belong on REST is an internal error.
func statusOf(r wire.Reason) (code int, msg string) {
	if e, _ := reason.Of(r); e.Status != 0 {
		return e.Status, e.Msg
	}
	return http.StatusInternalServerError, "Internal error"
}
