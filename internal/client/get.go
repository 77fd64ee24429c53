package client

import (
	"context"
	"io"
	"net/http"
)

// maxPage is the maximum size of an answer with a page of a list.
const maxPage = 16 << 20

// Get returns a function that performs GET requests with a token. The function returns a
// *ResponseError if the server rejects a request.
func (a *API) Get(token string) func(ctx context.Context, path string) ([]byte, error) {
	return func(ctx context.Context, path string) ([]byte, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.Base.String()+path, nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("User-Agent", a.Agent)
		resp, err := a.Client.Do(req)
		if err != nil {
			return nil, PlainError(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxPage))
		if err != nil {
			return nil, PlainError(err)
		}
		if resp.StatusCode == http.StatusOK {
			return text, nil
		}
		return nil, responseError(resp, text)
	}
}
