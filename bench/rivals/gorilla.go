package main

import (
	"context"
	"net/http"
	"sync"

	"github.com/gorilla/websocket"
)

// startGorilla starts a relay on gorilla/websocket. Each message is framed once as a
// PreparedMessage and written to each connection separately, because the library cannot put several
// messages into one write.
func startGorilla(string) (*relay, error) {
	h := openHall(func(c *websocket.Conn, batch []*websocket.PreparedMessage) error {
		for _, m := range batch {
			if err := c.WritePreparedMessage(m); err != nil {
				return err
			}
		}
		return nil
	})
	up := websocket.Upgrader{ReadBufferSize: 512, WriteBufferSize: 512, WriteBufferPool: &sync.Pool{}}
	site, address, err := openWebsite(func(w http.ResponseWriter, r *http.Request) {
		c, err := up.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		read := func() {
			for err := error(nil); err == nil; {
				_, _, err = c.NextReader()
			}
		}
		if !h.join(c, read) {
			_ = c.Close() // the relay is ending
		}
	})
	if err != nil {
		return nil, err
	}
	return &relay{
		address: address,
		joined:  h.joined,
		publish: func(ctx context.Context, batch [][]byte) error {
			job := make([]*websocket.PreparedMessage, len(batch))
			for i, m := range batch {
				p, err := websocket.NewPreparedMessage(websocket.TextMessage, m)
				if err != nil {
					return err
				}
				job[i] = p
			}
			return h.publish(ctx, job)
		},
		close: func() error {
			err := site.close()
			h.end((*websocket.Conn).Close)
			return err
		},
	}, nil
}
