package auditexport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/ruedahq/rueda/broker/httpusers"
	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/base/certificate"
)

// Webhook configures a web service that receives rows as JSON lines in POST requests.
type Webhook struct {
	URL         string // https, or http to a loopback address
	Secret      []byte // signs requests, at least 32 bytes; empty: Certificate is required
	Certificate string // files of a client certificate and its key, in PEM; "": none
	Key         string
	Authorities string // file of CA certificates; "": those of the system
}

// maxAnswer bounds the bytes of an answer that are read. After a longer answer, the next request
// needs a new connection.
const maxAnswer = 64 << 10

// ContentType is the media type of the requests: one JSON object in each line.
const ContentType = "application/x-ndjson"

type webhook struct {
	cfg    Webhook
	url    string
	client *http.Client // nil: made by the next request, which reads the files
}

// NewWebhook returns the receiver. It reads the files, but does not connect.
func NewWebhook(cfg Webhook) (Receiver, error) {
	at, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, errors.New("url is not a URL") // the parser's error quotes it
	}
	ip := net.ParseIP(at.Hostname())
	switch {
	case at.Hostname() == "" || at.Scheme != "https" && at.Scheme != "http":
		return nil, errors.New("url is not like https://siem.broker.example/audit")
	case at.User != nil || at.RawQuery != "" || at.ForceQuery || at.Fragment != "":
		return nil, errors.New("url must not have a user, a query or a fragment")
	case at.Scheme == "http" && at.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()):
		return nil, errors.New("url must begin with https, because rows name users and addresses")
	case len(cfg.Secret) == 0 && cfg.Certificate == "":
		return nil, errors.New("requests are neither signed nor sent with a certificate: a secret or a certificate is needed")
	case len(cfg.Secret) != 0 && len(cfg.Secret) < httpusers.MinSecret:
		return nil, fmt.Errorf("the secret has %d bytes, fewer than %d", len(cfg.Secret), httpusers.MinSecret)
	case at.Scheme == "http" && cfg.Certificate != "":
		return nil, errors.New("a client certificate needs https")
	}
	if at.Path == "" {
		at.Path = "/"
	}
	w := &webhook{cfg: cfg, url: at.String()}
	return w, w.open()
}

func (w *webhook) open() error {
	secure, err := certificate.ClientConfig(w.cfg.Certificate, w.cfg.Key, w.cfg.Authorities)
	if err != nil {
		return err
	}
	w.client = &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			TLSClientConfig: secure, ForceAttemptHTTP2: true, DisableCompression: true, MaxIdleConnsPerHost: 1,
			IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 16 << 10,
		},
	}
	return nil
}

// Name implements Receiver.
func (w *webhook) Name() string { return "webhook" }

// Settle implements Receiver.
func (w *webhook) Settle() time.Duration { return 0 }

// Check implements Receiver.
func (w *webhook) Check() error { return nil }

// Close implements Receiver.
func (w *webhook) Close() {
	if w.client != nil {
		w.client.CloseIdleConnections()
		w.client = nil
	}
}

// Send implements Receiver. A status of 200 to 299 acknowledges the rows.
func (w *webhook) Send(ctx context.Context, rows []audit.Row) error {
	if w.client == nil {
		if err := w.open(); err != nil {
			return err
		}
	}
	var body bytes.Buffer
	for i := range rows {
		if err := rows[i].WriteJSON(&body); err != nil {
			return err
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body.Bytes()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", ContentType)
	r.Header.Set("User-Agent", "rueda")
	if len(w.cfg.Secret) > 0 {
		httpusers.SignRequest(w.cfg.Secret, r, body.Bytes(), time.Now())
	}
	answer, err := w.client.Do(r)
	if err != nil {
		return err
	}
	_, _ = io.CopyN(io.Discard, answer.Body, maxAnswer)
	_ = answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("%s answered %s", r.URL.Host, answer.Status)
	}
	return nil
}
