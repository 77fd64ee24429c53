package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
)

// grant logs in at a gateway and returns the access token, or an error of the reason and the
// message of the answer.
func grant(ctx context.Context, c *http.Client, base, user, password string) (access string, err error) {
	body, err := json.Marshal(map[string]string{"grant_type": "password", "username": user, "password": password})
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/auth/token", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	var answer struct {
		Data struct {
			Access string `json:"access_token"`
		}
		Error struct{ Reason, Msg string }
	}
	err = json.NewDecoder(res.Body).Decode(&answer)
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.New(answer.Error.Reason + ": " + answer.Error.Msg)
	}
	return answer.Data.Access, err
}
