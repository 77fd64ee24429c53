package stream

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Refused is an answer of HTTP with an error.
type Refused struct {
	Status int
	Reason string
}

func (r *Refused) Error() string { return fmt.Sprintf("HTTP %d %s", r.Status, r.Reason) }

var client = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 4, IdleConnTimeout: 2 * time.Second}}

// Login returns an access token.
func Login(ctx context.Context, address, user, password string) (string, error) {
	body, err := json.Marshal(map[string]string{"grant_type": "password", "username": user, "password": password})
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/auth/token", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	var data struct {
		AccessToken string `json:"access_token"`
	}
	if err := do(req, &data); err != nil {
		return "", err
	}
	return data.AccessToken, nil
}

// Ready reports whether a gateway answers that it is ready.
func Ready(ctx context.Context, address string) bool {
	return status(ctx, address, "/readyz") == http.StatusOK
}

// Serves reports whether a gateway serves requests. During its start, it answers 503 to all.
func Serves(ctx context.Context, address string) bool {
	code := status(ctx, address, "/market/status") // 401 without a token
	return code != 0 && code != http.StatusServiceUnavailable
}

// status returns the status of a route, or 0 if nothing answers.
func status(ctx context.Context, address, route string) int {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+route, nil)
	if err != nil {
		return 0
	}
	answer, err := client.Do(req)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	return answer.StatusCode
}

// Get reads data of a route into a value.
func Get(ctx context.Context, address, token, route string, query url.Values, data any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+route+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	return do(req, data)
}

func do(req *http.Request, data any) error {
	answer, err := client.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return &Refused{answer.StatusCode, reason(answer.Body)}
	}
	var body struct {
		Success bool
		Data    json.RawMessage
	}
	if err := json.NewDecoder(answer.Body).Decode(&body); err != nil {
		return err
	}
	return json.Unmarshal(body.Data, data)
}

// reason returns the reason of an error.
func reason(r io.Reader) string {
	var body struct{ Error struct{ Reason, Msg string } }
	text, _ := io.ReadAll(io.LimitReader(r, 8<<10))
	if err := json.Unmarshal(text, &body); err != nil {
		return string(text)
	}
	return body.Error.Reason + ": " + body.Error.Msg
}

// History has rows of one series. Epoch is that of the last page.
type History struct {
	Epoch        string
	CompleteFrom int64 // 0: not stated
	Lost         []Range
	Rows         []*Message
}

// ReadHistory returns all rows of the current epoch above an N, or those of all epochs if it is
// below 0. The route is trades, quotes, statuses or bars, and the interval that of bars. Rows have
// their epoch.
func ReadHistory(ctx context.Context, address, token, route, instrument, interval string, after int64) (*History, error) {
	h := &History{}
	query := url.Values{"instrument": {instrument}, "after_sequence": {strconv.FormatInt(after, 10)}, "limit": {"10000"}}
	if after < 0 {
		query.Del("after_sequence")
		query.Set("start", "2000-01-01T00:00:00Z")
	}
	if interval != "" {
		query.Set("interval", interval)
	}
	for {
		var page struct {
			Trades, Quotes, Statuses, Bars []json.RawMessage
			Epoch                          string
			Lost                           []Range
			CompleteFrom                   int64  `json:"complete_from"`
			Next                           string `json:"next_cursor"`
		}
		if err := Get(ctx, address, token, "/market/"+route, query, &page); err != nil {
			return nil, err
		}
		for _, list := range [][]json.RawMessage{page.Trades, page.Quotes, page.Statuses, page.Bars} {
			for _, text := range list {
				m := &Message{Text: text}
				if err := json.Unmarshal(text, m); err != nil {
					return nil, err
				}
				m.Epoch = page.Epoch
				h.Rows = append(h.Rows, m)
			}
		}
		h.Epoch, h.CompleteFrom = page.Epoch, max(h.CompleteFrom, page.CompleteFrom)
		for _, g := range page.Lost {
			g.Epoch = page.Epoch
			h.Lost = append(h.Lost, g)
		}
		if page.Next == "" {
			return h, nil
		}
		query.Set("cursor", page.Next)
	}
}
