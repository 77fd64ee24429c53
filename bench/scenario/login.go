package scenario

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
)

// logIn gets an access token for each user, as a client does. certificate is the file of the
// server's authority, or "".
func logIn(ctx context.Context, rest, certificate string, users int) ([]string, error) {
	const atOnce = 8
	transport := &http.Transport{MaxIdleConnsPerHost: atOnce}
	if certificate != "" {
		text, err := os.ReadFile(certificate)
		if err != nil {
			return nil, err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(text)
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	tokens := make([]string, users)
	errs := make([]error, atOnce)
	var next atomic.Int64
	var all sync.WaitGroup
	for w := range atOnce {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= users || errs[w] != nil {
					return
				}
				tokens[i], errs[w] = token(ctx, client, rest, fmt.Sprintf("u%06d", i))
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return tokens, nil
}

func token(ctx context.Context, client *http.Client, rest, user string) (string, error) {
	body := fmt.Sprintf(`{"grant_type":"password","username":%q,"password":%q}`, user, user)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, rest+"/auth/token", bytes.NewReader([]byte(body)))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return "", fmt.Errorf("log %s in: %w", user, err)
	}
	defer res.Body.Close()
	var answer struct {
		Data struct {
			AccessToken string `json:"access_token"`
		} `json:"data"`
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return "", fmt.Errorf("log %s in: status %s: %w", user, res.Status, err)
	}
	if answer.Data.AccessToken == "" {
		return "", fmt.Errorf("log %s in: status %s", user, res.Status)
	}
	return answer.Data.AccessToken, nil
}
