package command

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/wire"
)

// TestExplain checks the sentence, the next step and the exit status for what may be wrong with a
// gateway, a login or the network.
func TestExplain(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err          error
		status       int
		text, advice string
	}{
		{&client.Error{Code: 401, Reason: wire.InvalidCredentials, Msg: "Wrong username or password"}, ExitRefused, "invalid_credentials: Wrong", "Check the username, ana, and the password."},
		{&client.Error{Code: 401, Reason: wire.InvalidRefreshToken}, ExitRefused, "the login of ana has ended: it has expired or was revoked (invalid_refresh_token)", "Log in again: rueda auth login --context prod"},
		{&client.Error{Code: 401, Reason: wire.TokenRevoked}, ExitRefused, "it has expired or was revoked (token_revoked)", "Log in again"},
		{&client.Error{Code: 403, Reason: wire.MFARequired}, ExitRefused, "ana needs a one-time password", "--otp CODE"},
		{&client.Error{Code: 404, Reason: wire.UnknownInstrument, Msg: "Unknown instrument", Hint: "Did you mean A|B|C?"}, ExitNotFound, "unknown_instrument: Unknown instrument\n", "Did you mean A|B|C?"},
		{&client.Error{Code: 403, Reason: wire.NotEntitled, Msg: "No right to this data"}, ExitRefused, "not_entitled: No right", ""},
		{&client.Error{Code: 429, Reason: wire.RateLimited, Msg: "Too many", RetryAfter: 7e9}, ExitError, "rate_limited", "Try again in 7 s."},
		{&client.Error{Code: 502}, ExitUnreachable, "https://api.example answered 502", "not a gateway"},
		{fmt.Errorf("connection broken: %w", syscall.ECONNREFUSED), ExitUnreachable, "https://api.example: connection refused", "Is it running?"},
		{&url.Error{Op: "Get", URL: "https://api.example", Err: &net.DNSError{Err: "no such host", Name: "api.example", IsNotFound: true}}, ExitUnreachable, "there is no host api.example", "Is it running?"},
		{&url.Error{Op: "Get", Err: context.DeadlineExceeded}, ExitUnreachable, "no answer in time", ""},
		{&url.Error{Op: "Get", Err: x509.UnknownAuthorityError{}}, ExitUnreachable, "certificate signed by unknown authority", "SSL_CERT_FILE"},
		{&url.Error{Op: "Get", Err: x509.CertificateInvalidError{Cert: &x509.Certificate{}, Reason: x509.Expired}}, ExitUnreachable, "expired or is not yet valid", "Is its clock right?"},
		{&url.Error{Op: "Get", Err: syscall.ECONNRESET}, ExitUnreachable, "connection broken", "the address begins with https"},
		{context.Canceled, 0, "", ""},
	} {
		target := &Target{URL: "https://api.example", User: "ana", Context: "prod", login: &Login{}}
		err := target.Unreached(tc.err)
		var f *Failure
		if !errors.As(err, &f) {
			if tc.status != 0 || !errors.Is(err, tc.err) {
				t.Errorf("%v: %v", tc.err, err)
			}
			continue
		}
		if f.status != tc.status || !strings.Contains(f.Error()+"\n", tc.text) || !strings.Contains(f.advice, tc.advice) {
			t.Errorf("%v: status %d, %q, %q", tc.err, f.status, f.Error(), f.advice)
		}
	}
}
