package host

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/ruedahq/rueda/bench/proc"
)

// adminToken is the operator token of the gateway, which listens on loopback only.
const adminToken = "the-operator-token-of-a-measurement"

// Scrapes is the answer to "scrape".
type Scrapes struct {
	CPU   float64 // processor seconds of one scrape, its client included
	Bytes int     // of the page
}

// scrape reads the page of metrics n times.
func (s *server) scrape(n int) (*Scrapes, error) {
	if n <= 0 {
		return nil, errors.New("no scrapes")
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	out := &Scrapes{}
	var before float64
	for i := -1; i < n; i++ { // the first one connects, and is not counted
		page, err := s.page(client)
		if err != nil {
			return nil, err
		}
		out.Bytes = len(page)
		if i < 0 {
			if before, err = proc.CPU(os.Getpid()); err != nil {
				return nil, err
			}
		}
	}
	after, err := proc.CPU(os.Getpid())
	if err != nil {
		return nil, err
	}
	out.CPU = (after - before) / float64(n)
	return out, nil
}

// page returns the page of metrics.
func (s *server) page(client *http.Client) (page []byte, err error) {
	r, err := http.NewRequest("GET", "http://"+s.admin+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+adminToken)
	answer, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("/metrics answered %s", answer.Status)
	}
	return io.ReadAll(answer.Body)
}
