package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// NewHealth returns the command health.
func NewHealth(std command.Streams) *cobra.Command {
	var name, url string
	var ready bool
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Check whether a gateway on this machine is alive, for containers",
		Long: `Health sends GET /livez to the address of a configuration, or to --url. The exit status is 0 if
the answer is 200, 1 if it is another one, and 5 if there is none within 5 s. It does not
check the certificate, which has the public name of the gateway.`,
		Example: `  rueda health --config /etc/rueda/rueda.toml
  rueda health --ready --url http://127.0.0.1:8080`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			address := url
			if address == "" && name != "" {
				s, err := command.LoadConfig(cmd.Context(), std, name)
				if err != nil {
					return err
				}
				if err := s.Users.Close(); err != nil { // not used here
					return err
				}
				address = localURL(s.Gateway.Listen, s.Gateway.TLS.Certificate != "")
			}
			path := "/livez"
			if ready {
				path = "/readyz"
			}
			if advice := command.WithScheme(address); address != "" && advice != "" {
				return command.Fail(command.ExitUsage, fmt.Errorf("--url: %q is not the address of a gateway", address), advice)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), 5*time.Second)
			defer cancel()
			if err := probe(ctx, cmp.Or(strings.TrimRight(address, "/"), command.DefaultURL)+path); err != nil {
				return err
			}
			_, err := fmt.Fprintln(std.Out, "OK")
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&name, "config", "", "configuration file of the gateway")
	f.StringVar(&url, "url", "", "address of the gateway (default that of --config, or "+command.DefaultURL+")")
	f.BoolVar(&ready, "ready", false, "check whether it should receive clients: GET /readyz")
	return cmd
}

// localURL returns the URL of a listening address, as seen from this machine.
func localURL(listen string, secure bool) string {
	host, port, err := net.SplitHostPort(cmp.Or(listen, "127.0.0.1:8080"))
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	if secure {
		return "https://" + net.JoinHostPort(host, port)
	}
	return "http://" + net.JoinHostPort(host, port)
}

// probe requests a health check of this machine's gateway.
func probe(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return command.Fail(command.ExitUsage, fmt.Errorf("--url: %w", err), "")
	}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // no secret is sent, and the name differs
	}}
	res, err := client.Do(req)
	if err != nil {
		return command.Fail(command.ExitUnreachable, fmt.Errorf("health check: %w", err), "Is the gateway running? Check its address with --url.")
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, 1000))
	err = errors.Join(err, res.Body.Close())
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("health check: %s: %s", res.Status, strings.TrimSpace(string(text)))
	}
	return err
}
