//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/ruedahq/rueda/tests/chaos/check"
	"github.com/ruedahq/rueda/tests/chaos/market"
	"github.com/ruedahq/rueda/tests/chaos/producer"
)

// EmptyEdges starts an edge without data again and again, while a producer sends, and asks it from
// the first moment. It serves nobody until it has the log: no instrument is unknown, and no answer
// has another epoch than that of the log.
func (c *Cluster) EmptyEdges(ctx context.Context, starts int, config Config) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer func() { cancel(); running.Wait() }()
	m := market.New(config.Seed, time.Now(), 4*time.Millisecond, 6)
	source := producer.New(producer.Config{Market: m, Name: "chaos", Resume: "1", Token: FeedToken, Addresses: c.Feeds(), AckLimit: 2 * time.Second})
	running.Go(func() { source.Run(ctx) })
	judge := check.NewJudge(m, config.Report)
	if err := c.begin(ctx, judge); err != nil {
		return err
	}
	edge, err := c.Add("empty", "edge")
	if err != nil {
		return err
	}
	p := &Probe{Node: edge, Token: c.Token, Judge: judge, Every: 3 * time.Millisecond}
	running.Go(func() { p.Run(ctx) })
	running.Go(func() { p.Stream(ctx) })
	var first, ready []time.Duration
	refusals := 0
	for range starts {
		a, err := p.start()
		if err != nil {
			return err
		}
		if late := c.AwaitReady(time.Minute); late != "" {
			return fmt.Errorf("%s is not ready after a minute", late)
		}
		first, ready = append(first, a.first.Sub(a.began)), append(ready, time.Since(a.began))
		refusals += a.refused
		producer.Wait(ctx, 300*time.Millisecond) // more answers
		edge.Kill()
	}
	cancel()
	running.Wait()
	config.Logf("figure: %d starts of an empty edge: the first right answer came after %v to %v, and it was ready after %v to %v; %d refusals",
		starts, slices.Min(first), slices.Max(first), slices.Min(ready), slices.Max(ready), refusals)
	if refusals == 0 {
		return errors.New("no request came before an edge had the log")
	}
	return nil
}

// start starts the node without data, and waits until it has answered over REST and on the stream.
func (p *Probe) start() (a answers, err error) {
	if err := os.RemoveAll(p.Node.data()); err != nil {
		return a, err
	}
	began := time.Now()
	p.mu.Lock()
	p.answers = answers{began: began}
	p.mu.Unlock()
	if err := p.Node.Start(); err != nil {
		return a, err
	}
	for time.Since(began) < time.Minute {
		p.mu.Lock()
		a = p.answers
		p.mu.Unlock()
		if a.rest > 0 && a.sockets > 0 {
			return a, nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return a, errors.New("the new edge has answered nothing for a minute")
}
