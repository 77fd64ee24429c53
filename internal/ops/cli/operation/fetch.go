package operation

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/base/certificate"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

const (
	defaultAdmin = "http://127.0.0.1:8081"
	maxPage      = 16 << 20
	timeLimit    = 10 * time.Second
)

// source sends requests to the listener for administrators of a gateway.
type source struct {
	admin, tokenFile, authorities, certificate, key string // flags

	url    string
	token  string
	client *http.Client
}

// flags adds the flags that say where the gateway is.
func (s *source) flags(cmd *cobra.Command) {
	s.add(cmd.Flags())
}

// flagSet is a set of flags of a command.
type flagSet interface {
	StringVar(p *string, name, value, usage string)
}

func (s *source) add(f flagSet) {
	f.StringVar(&s.admin, "admin", "", "URL of the listener for administrators (default RUEDA_ADMIN, or "+defaultAdmin+")")
	f.StringVar(&s.tokenFile, "token-file", "", "file with the token of an operator (default: the token in RUEDA_ADMIN_TOKEN)")
	f.StringVar(&s.authorities, "ca", "", "file with the certificate authorities of the listener (default those of the system)")
	f.StringVar(&s.certificate, "certificate", "", "file with a client certificate")
	f.StringVar(&s.key, "key", "", "file with its key")
}

// open checks the flags. role is the one that the token must have at least.
func (s *source) open(role string) error {
	usage := func(err error, advice string) error { return command.Fail(command.ExitUsage, err, advice) }
	s.url = strings.TrimRight(cmp.Or(s.admin, os.Getenv("RUEDA_ADMIN"), defaultAdmin), "/")
	at, err := url.Parse(s.url)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return usage(fmt.Errorf("--admin: %q is not a URL such as %s", s.url, defaultAdmin), cmp.Or(command.WithScheme(s.url), "It is the address of listen in [admin] of rueda.toml."))
	}
	if ip := net.ParseIP(at.Hostname()); at.Scheme == "http" && at.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return usage(errors.New("--admin: the token would be sent in clear text to another machine"), "Use https, or a tunnel to the listener.")
	}
	s.token = os.Getenv("RUEDA_ADMIN_TOKEN")
	if s.tokenFile != "" {
		text, err := os.ReadFile(s.tokenFile)
		if err != nil {
			return usage(fmt.Errorf("read the token: %w", err), "")
		}
		s.token = string(text)
	}
	if s.token = strings.TrimSpace(s.token); s.token == "" {
		return usage(errors.New("no token of an operator is given"), "Give --token-file FILE or the variable RUEDA_ADMIN_TOKEN. rueda serve --init wrote a token into admin.token;\n"+
			"rueda dev --admin ADDRESS prints one. docs/operations.md#operators says how to make others. The role "+role+" is enough.")
	}
	if strings.ContainsAny(s.token, " \n\t") {
		return usage(errors.New("the token of an operator must be one line without spaces"), "--token-file needs the token itself. In token_file of [admin], a line for each operator has only a hash.")
	}
	config, err := certificate.ClientConfig(s.certificate, s.key, s.authorities)
	if err != nil {
		return usage(err, "")
	}
	s.client = &http.Client{
		Timeout: timeLimit, Transport: &http.Transport{TLSClientConfig: config},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return nil
}

// page reads the page.
func (s *source) page(ctx context.Context) (*page, error) {
	body, header, err := s.send(ctx, http.MethodGet, "/metrics", "")
	if err != nil {
		return nil, err
	}
	if !looksLikePage(body) {
		return nil, notGateway()
	}
	p, err := parse(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	p.at = time.Now()
	p.clock, _ = http.ParseTime(header.Get("Date"))
	return p, nil
}

// send sends a request, with a body of JSON or none, and returns the answer if its status is 200.
func (s *source) send(ctx context.Context, method, path, body string) ([]byte, http.Header, error) {
	status, text, header, err := s.exchange(ctx, method, path, body)
	if err != nil {
		return nil, nil, err
	}
	return text, header, refusal(method+" "+path, status, text)
}

// exchange sends a request, and returns the answer with any status.
func (s *source) exchange(ctx context.Context, method, path, body string) (status int, text []byte, header http.Header, err error) {
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := s.client.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return 0, nil, nil, ctx.Err()
		}
		if errors.Is(err, http.ErrSchemeMismatch) {
			return 0, nil, nil, command.Fail(command.ExitUnreachable, fmt.Errorf("%s: the server does not use TLS", s.url), "For a listener without TLS, write http:// in --admin.")
		}
		return 0, nil, nil, command.Fail(command.ExitUnreachable, fmt.Errorf("the gateway does not answer: %w", errors.Unwrap(err)),
			"Is it running, with listen in [admin] of rueda.toml? --admin is the URL of that listener, not that of clients.")
	}
	text, err = io.ReadAll(io.LimitReader(answer.Body, maxPage))
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		return 0, nil, nil, command.Fail(command.ExitUnreachable, fmt.Errorf("read the answer: %w", err), "")
	}
	return answer.StatusCode, text, answer.Header, nil
}

// notGateway returns the error for an answer of another program.
func notGateway() error {
	return command.Fail(command.ExitError, errors.New("the answer is not that of a gateway"), "Check --admin: another program has this address.")
}

// refusal returns the error for an answer to a request, or nil for 200.
func refusal(request string, status int, body []byte) error {
	var e struct {
		Error struct {
			Msg, Hint string
			Details   []struct{ Msg string }
		}
	}
	_ = json.Unmarshal(body, &e) // another program answers in another form
	msg := cmp.Or(e.Error.Msg, http.StatusText(status))
	switch status {
	case http.StatusOK:
		return nil
	case http.StatusUnauthorized:
		return command.Fail(command.ExitRefused, errors.New("the gateway does not accept the token: "+msg),
			"Compare its SHA-256 with the lines of admin.token_file, and see whether the line has ended.")
	case http.StatusForbidden:
		return command.Fail(command.ExitRefused, errors.New("the token may not do this: "+msg), e.Error.Hint)
	case http.StatusNotFound:
		if strings.Contains(e.Error.Hint, "/admin/") { // the listener for administrators has this route
			return command.Fail(command.ExitNotFound, errors.New(msg), e.Error.Hint)
		}
		return command.Fail(command.ExitNotFound, errors.New("nothing answers "+request+" there"),
			"This is the listener for clients, or a gateway of an older version. --admin is the URL of the listener for administrators.")
	}
	if len(e.Error.Details) > 1 || status == http.StatusUnprocessableEntity {
		for _, d := range e.Error.Details {
			msg += "\n" + command.Printable(d.Msg)
		}
	}
	return command.Fail(command.ExitOf(status), fmt.Errorf("the gateway answers %d: %s", status, msg), e.Error.Hint)
}
