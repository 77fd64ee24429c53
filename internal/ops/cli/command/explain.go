package command

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/wire"
)

// Explain adds the exit status and the next step to an error of a client. Other errors, such as
// those of the output, are returned unchanged.
func (t *Target) Explain(err error) error {
	var f *Failure
	var e *client.Error
	var request *url.Error
	var network net.Error
	var text *json.SyntaxError
	var file *fs.PathError
	switch {
	case err == nil, errors.As(err, &f), errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &e):
		return t.refused(e)
	case errors.As(err, &text) && t.tokens != nil:
		return Fail(ExitError, err, t.again())
	case errors.As(err, &file): // for example the output was closed
		return err
	case errors.As(err, &request), errors.As(err, &network), errors.Is(err, io.ErrUnexpectedEOF):
		return Fail(ExitUnreachable, fmt.Errorf("%s: %w", t.URL, plain(err)), t.unreachable(err))
	}
	return err
}

// plain describes an error of the network without the names of libraries and system calls.
func plain(err error) error {
	var unknown *net.DNSError
	var slow net.Error
	var request *url.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("connection refused")
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed), errors.Is(err, io.EOF):
		return errors.New("connection broken")
	case errors.As(err, &unknown) && unknown.IsNotFound:
		return fmt.Errorf("there is no host %s", unknown.Name)
	case errors.Is(err, http.ErrSchemeMismatch):
		return errors.New("the server does not use TLS")
	case errors.As(err, &slow) && slow.Timeout():
		return errors.New("no answer in time")
	case errors.As(err, &request):
		return request.Err
	}
	return err
}

// withoutTLS returns the address of the same server without TLS.
func withoutTLS(address string) string {
	return strings.NewReplacer("https://", "http://", "wss://", "ws://").Replace(address)
}

func (t *Target) unreachable(err error) string {
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "The certificate is not valid at the time of this machine, " + time.Now().UTC().Format(time.RFC3339) + ". Is its clock right? If it is, the broker must renew the certificate."
	case errors.As(err, &unknown):
		return "The server answers, but its certificate is not trusted. Trust a certificate file with the variable SSL_CERT_FILE."
	case errors.Is(err, http.ErrSchemeMismatch) && t.local:
		return "For a gateway without TLS, write " + withoutTLS(t.URL)
	case errors.Is(err, http.ErrSchemeMismatch):
		return "Check the port: without TLS, rueda connects only to a gateway on this machine."
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return "The server closes the connection. If it uses TLS, the address begins with https."
	}
	return "Is it running? Start one on this machine with: rueda dev"
}

// again returns the advice for a login that has ended.
func (t *Target) again() string {
	if t.Context == "" {
		return "Log in again."
	}
	return "Log in again: rueda auth login --context " + t.Context
}

// refused returns the failure for an answer of the gateway. The advice is the gateway's hint.
func (t *Target) refused(answer *client.Error) error {
	e := new(*answer)
	e.Hint = ""
	switch e.Reason {
	case "":
		return Fail(ExitUnreachable, fmt.Errorf("%s answered %d", t.URL, e.Code),
			"The server at this address is not a gateway. Check the address, and any proxy in front of the gateway.")
	case wire.MFARequired:
		return needsOTP(t.User)
	case wire.InvalidCredentials:
		advice := "Check the username, " + t.User + ", and the password."
		if t.login.otp != "" {
			advice = "Check the username, " + t.User + ", the password and the one-time password. A code can be used once."
		}
		if t.local && (t.User == DemoUser || t.User == BasicUser) {
			advice = devPasswords
		}
		return Fail(ExitRefused, e, advice)
	case wire.InvalidRefreshToken, wire.InvalidToken, wire.TokenExpired, wire.TokenRevoked:
		return Fail(ExitRefused, fmt.Errorf("the login of %s has ended: it has expired or was revoked (%s)", t.User, e.Reason), t.again())
	case wire.UnknownInstrument:
		return Fail(ExitNotFound, e, answer.Hint)
	}
	advice := answer.Hint
	if e.RetryAfter > 0 {
		advice = fmt.Sprintf("Try again in %d s.", int(e.RetryAfter.Seconds()))
	}
	status := ExitOf(e.Code)
	if e.Code == http.StatusUnprocessableEntity || e.Code == http.StatusBadRequest {
		status = ExitUsage
	}
	return Fail(status, e, advice)
}

// Unreached returns the failure for a gateway to which no connection was made. It is as Explain,
// and also for errors of the network that only the caller knows as such.
func (t *Target) Unreached(err error) error {
	var f *Failure
	if explained := t.Explain(err); explained == nil || errors.As(explained, &f) || errors.Is(explained, context.Canceled) {
		return explained
	}
	return Fail(ExitUnreachable, fmt.Errorf("%s: %w", t.URL, plain(err)), t.unreachable(err))
}
