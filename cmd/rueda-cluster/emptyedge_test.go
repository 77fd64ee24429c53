package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ruedahq/rueda/wire"
)

// TestEmptyEdgeE2E starts an edge with an empty folder many times, while a producer sends and
// clients ask that edge, also before it is ready. It answers nothing until it knows the log: no
// instrument is unknown, and no answer has another epoch than that of the log.
func TestEmptyEdgeE2E(t *testing.T) {
	rounds := 10
	if os.Getenv("RUEDA_SOAK") != "" {
		rounds = 50
	}
	r := newRig(t, 1, 1)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer func() { cancel(); running.Wait() }()
	r.produce(ctx, &running, time.Millisecond, true)
	token := r.login(0)
	r.instruments(token)
	r.awaitTrades([]*follower{r.follow(ctx, &running)}, 1000)
	edge := r.addEdge("edge-2")
	a := &asker{address: edge.address, token: token, epoch: r.status(r.edges[0]).Cluster.Epoch, wrong: map[string]int{}}
	running.Go(func() { a.requests(ctx) })
	running.Go(func() { a.streams(ctx) })
	var answered, ready []time.Duration
	for round := range rounds {
		began := time.Now()
		if round > 0 {
			edge.signal(syscall.SIGKILL)
			for _, name := range []string{"journal", "node"} {
				if err := os.RemoveAll(filepath.Join(r.folder, edge.name, name)); err != nil {
					t.Fatal(err)
				}
			}
			began = time.Now()
			a.again()
			edge.start(t)
		}
		r.awaitReady(time.Minute)
		ready = append(ready, time.Since(began))
		await(t, "the edge answers over REST and on the stream", func() bool {
			rest, stream, _ := a.counts()
			return rest > 0 && stream > 0
		})
		answered = append(answered, a.firstAnswer().Sub(began))
	}
	cancel()
	running.Wait()
	_, _, refused := a.counts()
	t.Logf("figure: %d starts of an empty edge: ready after %s; first answer after %s; %d refusals meanwhile; %d wrong answers", rounds, distribution(ready), distribution(answered), refused, a.total())
	for text, n := range a.wrong {
		t.Errorf("%d times: %s", n, text)
	}
	if refused == 0 {
		t.Error("no request came before an edge knew the log")
	}
}

// asker asks an edge that starts again and again, and notes what it must not answer.
type asker struct {
	address, token, epoch string

	mu           sync.Mutex
	rest, stream int       // right answers since the edge was started
	first        time.Time // of the first of them
	refused      int       // answers that the edge serves no clients yet
	wrong        map[string]int
}

// again forgets the right answers before the edge is started.
func (a *asker) again() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rest, a.stream, a.first = 0, 0, time.Time{}
}

func (a *asker) counts() (rest, stream, refused int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.rest, a.stream, a.refused
}

func (a *asker) firstAnswer() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.first
}

// total returns the number of wrong answers.
func (a *asker) total() (n int) {
	for _, x := range a.wrong {
		n += x
	}
	return n
}

// note counts an answer. wrong says why it is not right, if it is not.
func (a *asker) note(count *int, wrong string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if wrong != "" {
		a.wrong[wrong]++
		return
	}
	if *count++; a.first.IsZero() && count != &a.refused {
		a.first = time.Now()
	}
}

// requests sends requests over REST until ctx ends.
func (a *asker) requests(ctx context.Context) {
	client := http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	id := url.QueryEscape(ownInstrument)
	paths := []string{"/market/trades?limit=3&instrument=" + id, "/market/snapshot?instruments=" + id}
	for i := 0; ctx.Err() == nil; i++ {
		a.request(ctx, &client, paths[i%len(paths)])
		pause(ctx, 3*time.Millisecond)
	}
}

// request sends a request. An edge that does not run does not answer.
func (a *asker) request(ctx context.Context, client *http.Client, path string) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+a.address+path, nil)
	if err != nil {
		a.note(nil, err.Error())
		return
	}
	q.Header.Set("Authorization", "Bearer "+a.token)
	answer, err := client.Do(q)
	if err != nil {
		return
	}
	defer func() { _ = answer.Body.Close() }()
	var got struct {
		Error struct{ Reason wire.Reason }
		Data  struct{ Epoch string }
	}
	switch err := json.NewDecoder(answer.Body).Decode(&got); {
	case err != nil: // it was killed
	case answer.StatusCode == http.StatusServiceUnavailable && got.Error.Reason == wire.Unavailable:
		a.note(&a.refused, "")
	case answer.StatusCode != http.StatusOK:
		a.note(nil, fmt.Sprintf("%s %s of %s", answer.Status, got.Error.Reason, path))
	case got.Data.Epoch != a.epoch:
		a.note(nil, fmt.Sprintf("epoch %s of %s", got.Data.Epoch, path))
	default:
		a.note(&a.rest, "")
	}
}

// streams subscribes on the stream until ctx ends, less often after a right answer.
func (a *asker) streams(ctx context.Context) {
	for ctx.Err() == nil {
		wait := 20 * time.Millisecond
		if a.subscribe(ctx) {
			wait *= 10
		}
		pause(ctx, wait)
	}
}

// subscribe subscribes on one connection, asks for the subscriptions, and unsubscribes. It
// reports whether all answers came.
func (a *asker) subscribe(ctx context.Context) (answered bool) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel() // it closes the connection
	c, err := dialRaw(ctx, 1, a.address)
	if err != nil {
		return false // the edge does not run, or does not accept clients
	}
	trades := []string{ownInstrument}
	for _, m := range []map[string]any{
		{"action": "auth_token", "token": a.token, "session": "asker"},
		{"action": "subscribe", "trades": trades},
		{"action": "subscriptions"},
		{"action": "unsubscribe", "trades": trades},
	} {
		if err == nil {
			err = c.send(m)
		}
	}
	const wanted = 3 // answers
	for n := 0; err == nil && n < wanted; {
		var text []byte
		if text, err = c.next(); err != nil {
			return false
		}
		var m rawMessage
		switch err = json.Unmarshal(text, &m); {
		case err != nil:
			a.note(nil, "not JSON on the stream")
		case m.Type == "Error":
			if wire.Reason(m.Reason) == wire.Overloaded {
				a.note(&a.refused, "")
			} else {
				a.note(nil, fmt.Sprintf("the stream ends with %s", text))
			}
			return false
		case m.Epoch != "" && m.Epoch != a.epoch:
			a.note(nil, fmt.Sprintf("epoch %s on the stream, in a %s", m.Epoch, m.Type))
			n++
		case len(m.Rejected) > 0:
			a.note(nil, "rejected on the stream: "+string(m.Rejected))
			n++
		case m.Type == "Subscription":
			a.note(&a.stream, "")
			n++
		}
	}
	return err == nil
}
