package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
)

const mosquittoConfig = `# One listener for the publisher, one for the subscribers; nothing kept, nothing logged.
per_listener_settings false
allow_anonymous true
persistence false
set_tcp_nodelay true
sys_interval 0
log_dest none
listener %d 127.0.0.1
protocol mqtt
listener %d 127.0.0.1
protocol websockets
`

// startMosquitto runs mosquitto with a WebSocket listener; the publisher sends QoS 0 over TCP.
func startMosquitto(folder string) (*relay, error) {
	program, err := findProgram("mosquitto")
	if err != nil {
		return nil, err
	}
	tcp, err := freePort()
	if err != nil {
		return nil, err
	}
	ws, err := freePort()
	if err != nil {
		return nil, err
	}
	b, err := startBroker(folder, program, fmt.Sprintf(mosquittoConfig, tcp, ws), "-c", "{config}")
	if err != nil {
		return nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", ws)
	c, pids, err := openBroker(b, 0, address, fmt.Sprintf("127.0.0.1:%d", tcp), mqttHello)
	if err != nil {
		b.stop()
		return nil, err
	}
	var out []byte
	return &relay{
		address: address,
		pids:    pids,
		queues:  true,
		publish: func(ctx context.Context, batch [][]byte) error {
			defer untilDone(ctx, c)()
			out = out[:0]
			for _, m := range batch {
				out = appendPublish(out, m)
			}
			_, err := c.Write(out)
			return err
		},
		close: func() error {
			_ = c.Close() // it may be closed
			b.stop()
			return nil
		},
	}, nil
}

// openBroker waits for a broker with the given number of children, and opens the publisher's
// connection to it.
func openBroker(b *broker, children int, subscribers, publisher string, hello func(net.Conn) error) (net.Conn, []int, error) {
	if err := b.ready(subscribers); err != nil {
		return nil, nil, err
	}
	pids, err := b.pids(children)
	if err != nil {
		return nil, nil, err
	}
	c, err := net.Dial("tcp", publisher)
	if err != nil {
		return nil, nil, fmt.Errorf("publisher: %w", err)
	}
	if err := hello(c); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("publisher: %w", err), c.Close())
	}
	return c, pids, nil
}

// mqttHello connects with MQTT 3.1.1.
func mqttHello(c net.Conn) error {
	if _, err := c.Write([]byte(mqttConnect)); err != nil {
		return err
	}
	var answer [len(mqttConnected)]byte
	if _, err := io.ReadFull(bufio.NewReaderSize(c, len(answer)), answer[:]); err != nil {
		return err
	}
	if string(answer[:]) != mqttConnected {
		return fmt.Errorf("mqtt connect refused: % x", answer)
	}
	return nil
}

// The packets of MQTT 3.1.1 that a subscriber and a publisher of QoS 0 need (OASIS standard, 3).
const (
	// CONNECT: clean session, no keep-alive, and the server chooses the client's name.
	mqttConnect   = "\x10\x0c\x00\x04MQTT\x04\x02\x00\x00\x00\x00"
	mqttConnected = "\x20\x02\x00\x00"
)

// appendPublish appends a PUBLISH packet of QoS 0.
func appendPublish(b, message []byte) []byte {
	b = append(b, 0x30)
	left := 2 + len(subject) + len(message)
	for ; left > 127; left >>= 7 {
		b = append(b, byte(left)|0x80)
	}
	b = append(b, byte(left), 0, byte(len(subject)))
	b = append(b, subject...)
	return append(b, message...)
}
