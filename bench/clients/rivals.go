package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/alpacahq/alpaca-trade-api-go/v3/marketdata"
	"github.com/alpacahq/alpaca-trade-api-go/v3/marketdata/stream"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/wire"
)

// runAlpaca counts the events that Alpaca's client gets, with one processor, which keeps the order.
// Its buffer has space for everything, because it drops what does not fit.
func runAlpaca(ctx context.Context, address string, c *counter, batch int, dial dialFunc) error {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = dial
	http.DefaultTransport = transport // which the client uses, in a process of its own
	names := symbols()
	s := stream.NewStocksClient(marketdata.IEX,
		stream.WithBaseURL(fmt.Sprintf("%s/alpaca/%d", address, batch)), stream.WithCredentials("key", "secret"), stream.WithLogger(stream.ErrorOnlyLogger()),
		stream.WithBufferSize(c.most), stream.WithReconnectSettings(1, 0),
		stream.WithTrades(func(t stream.Trade) { c.add(t.Price) }, names...),
		stream.WithQuotes(func(q stream.Quote) { c.add(q.BidPrice) }, names...),
	)
	if err := s.Connect(ctx); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		<-s.Terminated()
		return nil
	case err := <-s.Terminated():
		return errors.Join(errors.New("the client has ended"), err)
	}
}

func runJSON(ctx context.Context, url string, c *counter, _ int, dial dialFunc) error {
	return runRueda(ctx, url, c, wire.JSON, dial)
}

func runBatch(ctx context.Context, url string, c *counter, _ int, dial dialFunc) error {
	return runRueda(ctx, url, c, wire.Batch, dial)
}

func runMsgpack(ctx context.Context, url string, c *counter, _ int, dial dialFunc) error {
	return runRueda(ctx, url, c, wire.Msgpack, dial)
}

// runRueda counts the events that package client gets. It waits for the program, and conflates
// nothing.
func runRueda(ctx context.Context, address string, c *counter, format wire.Format, dial dialFunc) error {
	r, err := client.New([]string{address}, client.Options{Username: "bench", Password: "bench", Format: format, Overflow: client.Block, Dial: dial})
	if err != nil {
		return err
	}
	defer r.Close()
	var ids []string
	for _, s := range symbols() {
		ids = append(ids, s+"|BENCH|CI")
	}
	if err := r.Subscribe(client.Set{Trades: ids, Quotes: ids}); err != nil {
		return err
	}
	for ev := range r.Events(ctx) {
		switch ev := ev.(type) {
		case *client.Trade:
			c.add(client.Float64(ev.Price))
		case *client.Quote:
			c.add(client.Float64(ev.Bid.Price))
		case client.StateChange:
			if ev.Err != nil {
				return ev.Err
			}
		case client.Lost:
			return errors.New(ev.String())
		}
	}
	return r.Err()
}
