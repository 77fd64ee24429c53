package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/ruedahq/rueda/wire"
)

// maxPage bounds an answer with a page of a list.
const maxPage = 16 << 20

// get gives GETs with a token. The error of one is a *refusal where the server answered with one.
func (a *api) get(token string) func(ctx context.Context, path string) ([]byte, error) {
	return func(ctx context.Context, path string) ([]byte, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base.String()+path, nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("User-Agent", userAgent())
		resp, err := a.client.Do(req)
		if err != nil {
			return nil, plain(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxPage))
		if err != nil {
			return nil, plain(err)
		}
		if resp.StatusCode == http.StatusOK {
			return text, nil
		}
		var answer struct {
			Error struct {
				Reason wire.Reason `json:"reason"`
				Msg    string      `json:"msg"`
			} `json:"error"`
		}
		_ = json.Unmarshal(text, &answer) // without words the status says it
		return nil, &refusal{Status: resp.StatusCode, Reason: answer.Error.Reason, Msg: answer.Error.Msg}
	}
}
