package load

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"github.com/ruedahq/rueda/internal/base/frame"
)

// protocol describes how to talk to a kind of server. To measure another one, add an entry to
// protocols.
type protocol struct {
	path    string // of the upgrade, if Config has none
	headers string // additional ones, each with its line end
	binary  bool   // client frames are binary
	steps   []step
	// scan extracts the messages of a data frame and returns the number of bytes used, for
	// protocols that are byte streams; nil: the payload is one message.
	scan func(l *loop, c *conn, payload []byte) (used int, err error)
}

// step describes a message that a client sends before it is ready, and the answer that it waits
// for.
type step struct {
	// send appends what the client sends; nil: nothing.
	send func(b []byte, cfg *Config, i int) []byte
	// got reports whether the server's answer ends the step; nil: no answer.
	got func(p []byte) (bool, error)
}

// protocols are the servers that can be measured.
func protocols(name string) (protocol, error) {
	switch name {
	case "", "rueda":
		return protocol{path: "/stream", steps: []step{
			{send: sayToken, got: starts(`{"type":"Success"`)},
			{send: saySubscribe, got: starts(`{"type":"Subscription"`)},
		}}, nil
	case "plain": // every client gets everything, one message in a frame
		return protocol{path: "/"}, nil
	case "nchan": // the topic is in the URL
		return protocol{path: "/sub/{topic}"}, nil
	case "nats":
		return protocol{path: "/", binary: true, scan: scanNATS, steps: []step{
			{got: contains("INFO ")},
			{send: sayNATS, got: contains("PONG")},
		}}, nil
	case "mqtt":
		return protocol{path: "/mqtt", headers: "Sec-WebSocket-Protocol: mqtt\r\n", binary: true, scan: scanMQTT, steps: []step{
			{send: connectMQTT, got: packetMQTT(2)},
			{send: subscribeMQTT, got: packetMQTT(9)},
		}}, nil
	}
	return protocol{}, fmt.Errorf("no protocol is called %q", name)
}

// appendUpgrade appends the upgrade request of connection i.
func appendUpgrade(b []byte, cfg *Config, p *protocol, i int) []byte {
	path := strings.ReplaceAll(cmp.Or(cfg.Path, p.path), "{topic}", cfg.set(i).Topic)
	b = append(b, "GET "...)
	b = append(b, path...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, cmp.Or(cfg.Host, cfg.Address)...)
	b = append(b, "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "+upgradeKey+"\r\n"...)
	b = append(b, p.headers...)
	return append(b, "\r\n"...)
}

func sayToken(b []byte, cfg *Config, i int) []byte {
	b = append(b, `{"action":"auth_token","token":"`...)
	if len(cfg.Tokens) > 0 {
		b = append(b, cfg.Tokens[i%len(cfg.Tokens)]...)
	}
	return append(b, `"}`...)
}

func saySubscribe(b []byte, cfg *Config, i int) []byte {
	return append(b, cfg.set(i).Subscribe...)
}

func (cfg *Config) set(i int) *Set { return &cfg.Sets[i%len(cfg.Sets)] }

// starts accepts an answer with a prefix. Everything else except a ping is a refusal.
func starts(with string) func([]byte) (bool, error) {
	return func(p []byte) (bool, error) {
		if bytes.HasPrefix(p, []byte(with)) {
			if bytes.Contains(p, []byte(`"rejected":`)) {
				return false, fmt.Errorf("refused: %.300s", p)
			}
			return true, nil
		}
		if bytes.HasPrefix(p, []byte(`{"type":"Error"`)) {
			return false, fmt.Errorf("refused: %.300s", p)
		}
		return false, nil
	}
}

func contains(word string) func([]byte) (bool, error) {
	return func(p []byte) (bool, error) {
		if bytes.HasPrefix(p, []byte("-ERR")) {
			return false, fmt.Errorf("refused: %.200s", p)
		}
		return bytes.Contains(p, []byte(word)), nil
	}
}

// NATS uses its own text protocol inside frames, which may divide it anywhere.

func sayNATS(b []byte, cfg *Config, i int) []byte {
	b = append(b, `CONNECT {"verbose":false,"pedantic":false,"lang":"go","version":"1","protocol":1,"name":"load"`...)
	if len(cfg.Tokens) > 0 {
		b = append(b, `,"auth_token":"`...)
		b = append(b, cfg.Tokens[i%len(cfg.Tokens)]...)
		b = append(b, '"')
	}
	b = append(b, "}\r\nSUB "...)
	b = append(b, cfg.set(i).Topic...)
	return append(b, " 1\r\nPING\r\n"...)
}

func scanNATS(l *loop, c *conn, p []byte) (used int, err error) {
	for len(p) > used {
		b := p[used:]
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			return used, nil
		}
		switch {
		case bytes.HasPrefix(b, []byte("MSG ")): // MSG <subject> <sid> <bytes>
			size := 0
			digits := b[:end-1]
			for _, d := range digits[bytes.LastIndexByte(digits, ' ')+1:] {
				size = size*10 + int(d-'0')
			}
			whole := end + 1 + size + 2
			if len(b) < whole {
				return used, nil
			}
			l.message(c, b[end+1:end+1+size])
			used += whole
			continue
		case bytes.HasPrefix(b, []byte("PING")):
			l.say(c, frame.Binary, []byte("PONG\r\n"))
		case bytes.HasPrefix(b, []byte("-ERR")):
			return used, fmt.Errorf("refused: %.200s", b)
		}
		used += end + 1
	}
	return used, nil
}

// MQTT 3.1.1 is a stream of packets; quality of service 0.

func connectMQTT(b []byte, cfg *Config, i int) []byte {
	id := fmt.Appendf(nil, "load%d", i)
	token := ""
	if len(cfg.Tokens) > 0 {
		token = cfg.Tokens[i%len(cfg.Tokens)]
	}
	body := append([]byte{0, 4}, "MQTT"...)
	flags := byte(0x02) // clean session
	if token != "" {
		flags |= 0xC0 // user name and password
	}
	body = append(body, 4, flags, 0, 0)
	body = appendMQTT(body, string(id))
	if token != "" {
		body = appendMQTT(appendMQTT(body, "load"), token)
	}
	return append(appendSizeMQTT(append(b, 0x10), len(body)), body...)
}

func subscribeMQTT(b []byte, cfg *Config, i int) []byte {
	body := appendMQTT([]byte{0, 1}, cfg.set(i).Topic)
	body = append(body, 0)
	return append(appendSizeMQTT(append(b, 0x82), len(body)), body...)
}

func appendMQTT(b []byte, s string) []byte {
	return append(append(b, byte(len(s)>>8), byte(len(s))), s...)
}

func appendSizeMQTT(b []byte, n int) []byte {
	for ; n >= 128; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

// packetMQTT returns a function that accepts a packet of a kind whose last byte is the code of
// success.
func packetMQTT(kind byte) func([]byte) (bool, error) {
	return func(p []byte) (bool, error) {
		if len(p) == 0 || p[0]>>4 != kind {
			return false, nil
		}
		if p[len(p)-1] != 0 {
			return false, fmt.Errorf("refused with code %d", p[len(p)-1])
		}
		return true, nil
	}
}

func scanMQTT(l *loop, c *conn, p []byte) (used int, err error) {
	for len(p) > used {
		b := p[used:]
		size, i := 0, 1
		for ; ; i++ {
			if i >= len(b) || i > 4 {
				return used, nil
			}
			size |= int(b[i]&0x7F) << (7 * (i - 1))
			if b[i] < 0x80 {
				i++
				break
			}
		}
		if len(b) < i+size {
			return used, nil
		}
		if body := b[i : i+size]; b[0]>>4 == 3 && len(body) > 2 {
			topic := int(body[0])<<8 | int(body[1])
			if len(body) >= 2+topic {
				l.message(c, body[2+topic:])
			}
		}
		used += i + size
	}
	return used, nil
}
