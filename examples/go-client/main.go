// Command go-client uses package client to print the trades and the book of an instrument. Its
// arguments are the URL, the user, the password and the instrument.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"

	"github.com/ruedahq/rueda/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) != 5 {
		log.Fatal("usage: go-client URL USER PASSWORD INSTRUMENT")
	}
	if err := follow(ctx, os.Stdout, os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		log.Fatal(err)
	}
}

// follow prints trades and book updates until ctx ends or the gateway refuses the client for good.
func follow(ctx context.Context, out io.Writer, url, username, password, instrument string) error {
	c, err := client.New([]string{url}, client.Options{Username: username, Password: client.Secret(password)})
	if err != nil {
		return err
	}
	defer c.Close()
	err = c.Subscribe(client.Set{Trades: []string{instrument}, Books: []string{instrument}})
	if err != nil {
		return err
	}
	for ev := range c.Events(ctx) {
		switch ev := ev.(type) {
		case *client.Trade:
			fmt.Fprintln(out, "trade", ev.N, ev.Price, "x", ev.Size)
		case *client.BookUpdate:
			if book, err := c.Book(instrument); err == nil {
				bid, ask, _ := book.Best()
				fmt.Fprintln(out, "book", bid.Price, "/", ask.Price)
			}
		case client.StateChange:
			fmt.Fprintln(out, "stream", ev.State, ev.Err)
		case client.Lost:
			fmt.Fprintln(out, ev)
		case client.Rejected:
			fmt.Fprintln(out, "refused", ev.Instrument, ev.Reason, ev.Hint)
		}
	}
	return c.Err()
}
