package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/ruedahq/rueda/wire"
)

const (
	dialTimeout   = 15 * time.Second
	answerTimeout = 30 * time.Second // until the header of an answer
	wholeTimeout  = 2 * time.Minute  // until its end
	maxAnswer     = 64 << 20
	maxTries      = 3
	maxWait       = time.Minute // longest wait that a gateway may request in the middle of a call
)

// request is a request of REST.
type request struct {
	method, path string
	query        url.Values
	body         any
	token        bool // it needs the access token
	// save reads the body of a successful answer, which may have any length; cancel ends the request.
	// nil: the body is decoded.
	save func(answer *http.Response, cancel func()) error
}

// call sends a request and decodes the data of its answer. It tries the next URL if one cannot be
// reached, waits if the gateway asks for it, and renews a refused token once. What only reads is
// requested again when its connection breaks.
func (c *Client) call(ctx context.Context, r request, data any) error {
	for try := 1; ; try++ {
		var access Secret
		if r.token {
			t, err := c.tokens.get(ctx)
			if err != nil {
				return err
			}
			access = t.Access
		}
		body, err := c.anywhere(ctx, r, access)
		if err == nil && r.save != nil {
			return nil
		}
		if err == nil {
			return decodeData(body, data)
		}
		var e *Error
		isAnswer := errors.As(err, &e)
		if try == maxTries || ctx.Err() != nil || !isAnswer && (r.method != http.MethodGet || !mayHelp(err)) {
			return err
		}
		switch {
		case !isAnswer: // the connection broke
			if err := sleep(ctx, time.Duration(try)*100*time.Millisecond); err != nil {
				return err
			}
		case r.token && e.Code == http.StatusUnauthorized && try == 1:
			c.tokens.invalidate(access)
		case (e.Reason == wire.RateLimited || e.Code == http.StatusServiceUnavailable) && r.method == http.MethodGet && e.RetryAfter <= maxWait:
			if err := sleep(ctx, max(e.RetryAfter, 100*time.Millisecond)); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// anywhere sends a request to the URL in use or, if it cannot be reached, to the next ones.
func (c *Client) anywhere(ctx context.Context, r request, access Secret) (body []byte, err error) {
	for i := range c.urls {
		body, err = c.send(ctx, c.url(i), r, access)
		var e *Error
		if err == nil || ctx.Err() != nil || errors.As(err, &e) && e.Code != http.StatusServiceUnavailable && e.Reason != "" {
			return body, err
		}
	}
	return nil, err
}

// send sends a request to one URL and returns the body of a successful answer.
func (c *Client) send(ctx context.Context, base *url.URL, r request, access Secret) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if r.save == nil {
		ctx, cancel = context.WithTimeout(ctx, wholeTimeout)
		defer cancel()
	}
	u := *base
	u.Path += r.path
	u.RawQuery = r.query.Encode()
	var payload io.Reader
	if r.body != nil {
		text, err := json.Marshal(r.body)
		if err != nil {
			return nil, err
		}
		payload = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), payload)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", c.agent)
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if access != "" {
		req.Header.Set("Authorization", "Bearer "+string(access))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, broken(err)
	}
	defer resp.Body.Close()
	if r.save != nil && resp.StatusCode < http.StatusMultipleChoices {
		return nil, r.save(resp, cancel)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, broken(err)
	case resp.StatusCode >= http.StatusMultipleChoices: // redirects are not followed
		return nil, responseError(resp, body)
	case len(body) > maxAnswer:
		return nil, brokenError{fmt.Errorf("client: the answer of %s is longer than 64 MiB", r.path)}
	}
	return body, nil
}

// decodeData decodes the data of an answer.
func decodeData(body []byte, data any) error {
	var answer struct {
		Success bool            `json:"success"`
		Data    json.RawMessage `json:"data"`
	}
	err := unmarshal(body, &answer)
	if err != nil || !answer.Success {
		return brokenError{errors.Join(errors.New("client: the answer is not from a gateway"), err)}
	}
	if data == nil {
		return nil
	}
	return unmarshal(answer.Data, data)
}

// unmarshal decodes a part of an answer. The error says what is wrong, in a printable text.
func unmarshal(text []byte, to any) error {
	if err := json.Unmarshal(text, to); err != nil {
		return brokenError{errors.New(printable("client: " + err.Error()))}
	}
	return nil
}

// sleep waits, or returns the error of the context.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Get requests a path of REST, such as /market/status, with the access token, and decodes the data
// of the answer into the value to which data points. The error is an *Error if the gateway refused
// the request.
func (c *Client) Get(ctx context.Context, path string, query url.Values, data any) error {
	return c.call(ctx, request{method: http.MethodGet, path: path, query: query, token: true}, data)
}

// Login makes sure that there is a valid access token, and returns the tokens. Other methods do
// that themselves. It shows early whether the credentials are right.
func (c *Client) Login(ctx context.Context) (Tokens, error) { return c.tokens.get(ctx) }

// Logout ends the login with its tokens, and so the streams that use it. It is the login of the
// store if the Client has not used it yet.
func (c *Client) Logout(ctx context.Context) error {
	select {
	case c.tokens.renewing <- struct{}{}: // a renewal must not store tokens afterwards
		defer func() { <-c.tokens.renewing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	defer c.tokens.lock(ctx)()
	now, _, _ := c.tokens.valid()
	if err := c.tokens.load(ctx, &now); err != nil {
		return err
	}
	if now.Refresh == "" {
		return nil
	}
	err := c.call(ctx, request{method: http.MethodPost, path: "/auth/revoke", body: map[string]string{"token": string(now.Refresh)}}, nil)
	if err == nil && c.opts.Tokens != nil {
		err = c.opts.Tokens.Save(ctx, Tokens{})
	}
	if err == nil {
		c.tokens.mu.Lock()
		c.tokens.now = Tokens{}
		c.tokens.mu.Unlock()
	}
	return err
}
