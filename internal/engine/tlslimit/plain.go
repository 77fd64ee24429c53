package tlslimit

import (
	"crypto/tls"
	"errors"
	"net/http"

	"github.com/ruedahq/rueda/internal/engine/web"
	"github.com/ruedahq/rueda/wire"
)

// Plain returns the unencrypted answer to an HTTP request without TLS, if the error of a handshake
// says that the client sent one; otherwise nil.
func Plain(err error) []byte {
	var header tls.RecordHeaderError
	if !errors.As(err, &header) || !isMethod(header.RecordHeader) {
		return nil
	}
	e := web.NewError(http.StatusBadRequest, wire.InvalidRequest, "This port requires TLS: use https:// or wss:// in the address")
	return e.Append(nil, web.RequestID(""), web.NoHTTPS)
}

// isMethod reports whether an HTTP request may begin with b.
func isMethod(b [5]byte) bool {
	switch string(b[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO":
		return true
	}
	return false
}
