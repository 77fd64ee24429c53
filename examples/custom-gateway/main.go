// Command custom-gateway runs a gateway with a feed and a user base of its own. Copy it, and
// replace clock and directory with your exchange and your user base.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/ruedahq/rueda/gateway"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	g, err := gateway.New(ctx, gateway.Config{
		Users:   directory{},
		Feeds:   []gateway.Feed{{Name: "clock", Source: clock{}}},
		OnReady: func(b gateway.Bound) { log.Printf("ana/secret at %s and %s", b.REST, b.Stream) },
	})
	if err == nil {
		err = g.Run(ctx)
	}
	if err != nil {
		log.Fatal(err)
	}
}
