package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// subject is the NATS subject, the MQTT topic and the nchan channel. In nchan it is part of a path.
const subject = "bench"

// startNats starts nats-server in this process, with its defaults, a WebSocket listener and a
// publisher on its TCP port.
func startNats(string) (_ *relay, err error) {
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true,
		Websocket: server.WebsocketOpts{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoTLS: true},
	})
	if err != nil {
		return nil, fmt.Errorf("nats-server: %w", err)
	}
	s.Start()
	end := func() {
		s.Shutdown()
		s.WaitForShutdown()
	}
	defer func() {
		if err != nil {
			end()
		}
	}()
	if !s.ReadyForConnections(10 * time.Second) {
		return nil, errors.New("nats-server is not ready after 10 s")
	}
	publisher, err := nats.Connect(s.ClientURL())
	if err != nil {
		return nil, fmt.Errorf("nats publisher: %w", err)
	}
	return &relay{
		address: strings.TrimPrefix(s.WebsocketURL(), "ws://"),
		queues:  true,
		publish: func(_ context.Context, batch [][]byte) error {
			for _, m := range batch {
				if err := publisher.Publish(subject, m); err != nil {
					return err
				}
			}
			return nil // the client writes what it has as soon as it can
		},
		close: func() error {
			publisher.Close()
			end()
			return nil
		},
	}, nil
}
