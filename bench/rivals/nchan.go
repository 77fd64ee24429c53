package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
)

// nchanModule is the path of Debian's libnginx-mod-nchan.
const nchanModule = "/usr/lib/nginx/modules/ngx_nchan_module.so"

// workers is the number of nginx's worker processes: one per core of the machine of the published
// figures.
const workers = 2

const nchanConfig = `load_module ` + nchanModule + `;
daemon off;
worker_processes %d;
worker_rlimit_nofile 20000;
pid {folder}/pid;
error_log {folder}/error crit;
events {
	worker_connections 19900;
	multi_accept on;
}
http {
	access_log off;
	client_body_temp_path {folder}/body;
	proxy_temp_path {folder}/proxy;
	fastcgi_temp_path {folder}/fastcgi;
	uwsgi_temp_path {folder}/uwsgi;
	scgi_temp_path {folder}/scgi;
	nchan_shared_memory_size 512m;
	server {
		listen 127.0.0.1:%d backlog=4096 sndbuf=64k;
		tcp_nodelay on;
		keepalive_requests 1000000000;
		keepalive_timeout 1h;
		nchan_channel_id ` + subject + `;
		location = /sub/` + subject + ` {
			nchan_subscriber websocket;
			nchan_subscriber_first_message newest;
		}
		location = /pub {
			nchan_publisher http;
			nchan_message_buffer_length 1000;
			nchan_message_timeout 10s;
		}
	}
}
`

// startNchan runs nginx with the nchan module; the publisher pipelines POST requests on one
// connection.
func startNchan(folder string) (*relay, error) {
	program, err := findProgram("nginx")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	b, err := startBroker(folder, program, fmt.Sprintf(nchanConfig, workers, port), "-c", "{config}", "-p", "{folder}", "-e", "{folder}/error")
	if err != nil {
		return nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	c, pids, err := openBroker(b, workers, address, address, func(net.Conn) error { return nil })
	if err != nil {
		b.stop()
		return nil, err
	}
	answers := make(chan error, 1)
	go func() { answers <- readAnswers(c) }()
	var out []byte
	return &relay{
		address: address,
		pids:    pids,
		queues:  true,
		publish: func(ctx context.Context, batch [][]byte) error {
			defer untilDone(ctx, c)()
			select {
			case err := <-answers:
				answers <- err
				return fmt.Errorf("nchan: answers to the publisher: %w", err)
			default:
			}
			out = out[:0]
			for _, m := range batch {
				out = append(out, "POST /pub HTTP/1.1\r\nHost: bench\r\nContent-Type: text/plain\r\nContent-Length: "...)
				out = strconv.AppendInt(out, int64(len(m)), 10)
				out = append(out, "\r\n\r\n"...)
				out = append(out, m...)
			}
			_, err := c.Write(out)
			return err
		},
		close: func() error {
			_ = c.Close() // it may be closed
			err := <-answers
			b.stop()
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		},
	}, nil
}

// readAnswers reads the answers to pipelined requests until one is an error.
func readAnswers(c net.Conn) error {
	r := bufio.NewReader(c)
	for {
		a, err := http.ReadResponse(r, nil)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, a.Body); err != nil {
			return err
		}
		_ = a.Body.Close() // read to its end
		if a.StatusCode >= 300 {
			return errors.New(a.Status)
		}
	}
}
