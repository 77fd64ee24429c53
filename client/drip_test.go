package client_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/client"
)

// TestDrippingAnswer checks that a request ends with an error if its answer never ends, although a
// byte of it comes every ten seconds.
func TestDrippingAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			go func() {
				defer far.Close()
				if _, err := http.ReadRequest(bufio.NewReader(far)); err != nil {
					return
				}
				text := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{"
				for {
					if _, err := far.Write([]byte(text)); err != nil {
						return
					}
					text = " "
					time.Sleep(10 * time.Second)
				}
			}()
			return near, nil
		}
		c, err := client.New([]string{"http://127.0.0.1:1"}, client.Options{Username: "ana", Password: "p", Dial: dial})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := c.Login(ctx); err == nil || time.Since(began) > 5*time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		c.Close()
		time.Sleep(time.Minute) // until the gateway notices
	})
}
