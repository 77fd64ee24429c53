// Command conformance-client prints the events that it receives as JSON lines, so that rueda
// conformance client can test it. Copy it to test a program of your own, or translate it to test a
// client in another language.
//
//	go build -o client ./examples/conformance-client
//	rueda conformance client -- ./client
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the suite has seen enough
		cancel()
	}()
	if err := run(ctx, json.NewEncoder(os.Stdout)); err != nil {
		log.Fatal(err)
	}
}

// line is a line of output, which the conformance suite reads.
type line struct {
	Event      string      `json:"event"`
	Instrument string      `json:"instrument,omitempty"`
	N          uint64      `json:"n,omitempty"`
	Price      string      `json:"price,omitempty"`
	Size       string      `json:"size,omitempty"`
	Bids       [][2]string `json:"bids,omitempty"`
	Asks       [][2]string `json:"asks,omitempty"`
	From       uint64      `json:"from,omitempty"`
	To         uint64      `json:"to,omitempty"`
	Reason     string      `json:"reason,omitempty"`
	Replayed   bool        `json:"replayed,omitempty"`
}

// run prints a line for each event until ctx ends or the gateway refuses the client for good.
func run(ctx context.Context, out *json.Encoder) error {
	c, err := client.New(strings.Split(os.Getenv("RUEDA_URL"), ","), client.Options{
		Username: os.Getenv("RUEDA_USERNAME"), Password: client.Secret(os.Getenv("RUEDA_PASSWORD")),
		Tokens:  client.FileStore(filepath.Join(os.Getenv("RUEDA_FOLDER"), "tokens.json")),
		Session: os.Getenv("RUEDA_SESSION"),
	})
	if err != nil {
		return err
	}
	defer c.Close()
	ids := strings.Split(os.Getenv("RUEDA_INSTRUMENTS"), ",")
	if err := c.Subscribe(client.Set{Trades: ids, Books: ids}); err != nil {
		return err
	}
	for ev := range c.Events(ctx) {
		if l, ok := lineOf(c, ev); ok {
			if err := out.Encode(l); err != nil {
				return err
			}
		}
	}
	if err := c.Err(); err != nil {
		return out.Encode(line{Event: "end", Reason: string(client.ReasonOf(err))})
	}
	return nil
}

// lineOf returns the line for an event. ok is false if the suite does not need the event.
func lineOf(c *client.Client, ev client.Event) (l line, ok bool) {
	switch ev := ev.(type) {
	case *client.Trade:
		return line{Event: "trade", Instrument: ev.Instrument.String(), N: ev.N, Price: ev.Price.String(), Size: ev.Size.String(), Replayed: ev.Replayed}, true
	case *client.BookUpdate:
		book, err := c.Book(ev.Instrument.String())
		if err != nil {
			return line{}, false // BookInvalid follows
		}
		return line{Event: "book", Instrument: ev.Instrument.String(), N: book.N(), Bids: levels(book.Bids(5)), Asks: levels(book.Asks(5))}, true
	case client.BookInvalid:
		return line{Event: "invalid", Instrument: ev.Instrument.String(), Reason: ev.Reason}, true
	case client.Lost:
		return line{Event: "lost", Instrument: ev.Instrument.String(), From: ev.From, To: ev.To, Reason: ev.Reason}, ev.Channel == wire.Trades
	case client.Recovered:
		return line{Event: "recovered", Instrument: ev.Instrument.String(), From: ev.From, To: ev.To}, ev.Channel == wire.Trades
	case client.StateChange:
		log.Printf("%v %s: %v", ev.State, ev.URL, ev.Err) // on standard error, for people
		return line{}, false
	case client.Rejected:
		return line{Event: "rejected", Instrument: ev.Instrument, Reason: string(ev.Reason)}, true
	}
	return line{Event: fmt.Sprintf("%T", ev)}, true
}

func levels(list []market.Level) (pairs [][2]string) {
	for _, l := range list {
		pairs = append(pairs, [2]string{l.Price.String(), l.Size.String()})
	}
	return pairs
}
