package main

import (
	"context"
	"net"
	"net/http"

	"github.com/lxzan/gws"

	"github.com/ruedahq/rueda/wire"
)

// gwsUpgrader returns the library's upgrader without a logger.
func gwsUpgrader() *gws.Upgrader {
	return gws.NewUpgrader(gws.BuiltinEventHandler{}, &gws.ServerOption{ReadBufferSize: 512, Logger: quiet{}})
}

type quiet struct{}

func (quiet) Error(...any) {}

// startGwsRaw starts a relay that uses lxzan/gws for the upgrade and for reading. It writes its own
// frames to the library's net.Conn, all messages of a batch in one write. A team that knows that
// the number of messages per write determines the rate would do this.
func startGwsRaw(string) (*relay, error) {
	h := openHall(func(c net.Conn, frames []byte) error {
		_, err := c.Write(frames)
		return err
	})
	up := gwsUpgrader()
	site, address, err := openWebsite(func(w http.ResponseWriter, r *http.Request) {
		c, err := up.Upgrade(w, r)
		if err != nil {
			return
		}
		if !h.join(c.NetConn(), c.ReadLoop) {
			_ = c.NetConn().Close() // the relay is ending
		}
	})
	if err != nil {
		return nil, err
	}
	return &relay{
		address: address,
		joined:  h.joined,
		publish: func(ctx context.Context, batch [][]byte) error {
			frames := make([]byte, 0, len(batch)*messageRoom)
			for _, m := range batch {
				frames = wire.AppendText(frames, m)
			}
			return h.publish(ctx, frames)
		},
		close: func() error {
			err := site.close()
			h.end(net.Conn.Close)
			return err
		},
	}, nil
}

// startGwsBroadcaster starts a relay on the broadcaster of lxzan/gws. A message is framed once and
// added to the queue of each connection, which is unbounded and writes each message separately.
func startGwsBroadcaster(string) (*relay, error) {
	var all members[*gws.Conn]
	up := gwsUpgrader()
	site, address, err := openWebsite(func(w http.ResponseWriter, r *http.Request) {
		c, err := up.Upgrade(w, r)
		if err != nil {
			return
		}
		if !all.join(c, c.ReadLoop) {
			_ = c.NetConn().Close() // the relay is ending
		}
	})
	if err != nil {
		return nil, err
	}
	return &relay{
		address: address,
		queues:  true,
		joined:  func() int { return len(all.all()) },
		publish: func(_ context.Context, batch [][]byte) error {
			list := all.all()
			for _, m := range batch {
				out := gws.NewBroadcaster(gws.OpcodeText, m)
				for _, c := range list {
					if err := out.Broadcast(c); err != nil { // the message is wrong, not the connection
						return err
					}
				}
				_ = out.Close() // releases its memory; never fails
			}
			return nil
		},
		close: func() error {
			err := site.close()
			all.end(func(c *gws.Conn) error { return c.NetConn().Close() })
			return err
		},
	}, nil
}
