package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/internal/api/openapi/openapitest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/ruedatest"
	"github.com/ruedahq/rueda/wire"
)

// gateway is a gateway for the examples: its URL, and a way to publish.
var gateway *ruedatest.Server

// exampleTB is the testing.TB of the gateway of the examples, which have none.
type exampleTB struct {
	testing.TB
	folder   string
	cleanups []func()
}

func (*exampleTB) Helper()                           {}
func (*exampleTB) Context() context.Context          { return context.Background() }
func (x *exampleTB) TempDir() string                 { return x.folder }
func (x *exampleTB) Cleanup(f func())                { x.cleanups = append(x.cleanups, f) }
func (*exampleTB) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (*exampleTB) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (*exampleTB) Error(args ...any)                 { panic(fmt.Sprint(args...)) }
func (*exampleTB) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func TestMain(m *testing.M) {
	os.Exit(openapitest.Main(func() int {
		folder, err := os.MkdirTemp("", "client")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(folder)
		tb := &exampleTB{folder: folder}
		gateway = ruedatest.Start(tb, ruedatest.Config{})
		defer func() {
			for _, f := range tb.cleanups {
				f()
			}
		}()
		gateway.Define(market.Instrument{ID: market.InstrumentID{Symbol: "GGAL", Market: "BYMA", Term: "24hs"}, PriceDecimals: 2})
		gateway.Define(market.Instrument{
			ID: market.InstrumentID{Symbol: "YPFD", Market: "BYMA", Term: "24hs"}, Name: "YPF", Kind: "equity", Currency: "ARS",
			PriceDecimals: 2, Ticks: []market.Tick{{Step: market.Scale / 2}},
		})
		for _, size := range []string{"10", "20", "30"} {
			gateway.Trade("YPFD|BYMA|24hs", "31400", size)
		}
		gateway.Book("YPFD|BYMA|24hs", "31390", "300", "31400", "120")
		return m.Run()
	}))
}

// demo returns a client of the gateway of the examples.
func demo() *client.Client {
	c, err := client.New([]string{gateway.URL}, client.Options{Username: "demo", Password: "demo"})
	if err != nil {
		panic(err)
	}
	return c
}

func ExampleNew() {
	c, err := client.New([]string{gateway.URL}, client.Options{
		Username: "demo",
		Password: "demo",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	tokens, err := c.Login(context.Background())
	fmt.Println(err, tokens.Scope)
	// Output: <nil> accounts:read marketdata:read marketdata:depth marketdata:wildcard marketdata:history admin
}

func ExampleClient_Events() {
	c := demo()
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := c.Subscribe(client.Set{Trades: []string{"GGAL|BYMA|24hs"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for ev := range c.Events(ctx) {
		switch ev := ev.(type) {
		case client.StateChange:
			fmt.Println(ev.State)
			if ev.State == client.Live { // a market has trades by itself
				gateway.Trade("GGAL|BYMA|24hs", "7050.5", "40")
			}
		case *client.Trade:
			fmt.Println(ev.Instrument, ev.Price, "x", ev.Size)
			cancel() // ends the loop
		case client.Recovered:
			fmt.Println("missed, and received now:", ev)
		case client.Lost:
			fmt.Println("missed for good:", ev)
		}
	}
	fmt.Println(c.Err())
	// Output:
	// connecting
	// authenticating
	// syncing
	// live
	// GGAL|BYMA|24hs 7050.5 x 40
	// <nil>
}

func ExampleClient_Book() {
	c := demo()
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := c.Subscribe(client.Set{Books: []string{"YPFD|BYMA|24hs"}, Depth: client.AllLevels})
	if err != nil {
		fmt.Println(err)
		return
	}
	for ev := range c.Events(ctx) {
		switch ev.(type) {
		case *client.BookUpdate:
			book, err := c.Book("YPFD|BYMA|24hs")
			if err != nil {
				continue // not known at present
			}
			bid, ask, _ := book.Best()
			fmt.Println(bid.Price, "x", bid.Size, "/", ask.Price, "x", ask.Size)
			return
		case client.BookInvalid:
			fmt.Println("the book is not known until its next update")
		}
	}
	// Output: 31390 x 300 / 31400 x 120
}

func ExampleClient_Trades() {
	c := demo()
	defer c.Close()
	for trade, err := range c.Trades(context.Background(), "YPFD|BYMA|24hs", client.Range{Limit: 3}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(trade.N, trade.Price, trade.Size)
	}
	// Output:
	// 1 31400 10
	// 2 31400 20
	// 3 31400 30
}

func ExampleRange_lost() {
	c := demo()
	defer c.Close()
	var lost []client.Lost
	n := 0
	r := client.Range{Start: time.Now().AddDate(0, 0, -60), Lost: &lost}
	for _, err := range c.Trades(context.Background(), "YPFD|BYMA|24hs", r) {
		if err != nil {
			fmt.Println(err)
			return
		}
		n++
	}
	for _, l := range lost {
		fmt.Println(l)
	}
	fmt.Println(n, "trades")
	// Output: 3 trades
}

func ExampleClient_Accounts() {
	c := demo()
	defer c.Close()
	for account, err := range c.Accounts(context.Background()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(account.Number, account.Currency, account.Status)
	}
	// Output: 123456 ARS active
}

func ExampleClient_Instruments() {
	c := demo()
	defer c.Close()
	for in, err := range c.Instruments(context.Background(), client.Filter{Market: "BYMA", Text: "ypf"}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(in.ID, in.Name, in.Currency, "tick", in.TickSize(31400*market.Scale), in.Status)
	}
	// Output: YPFD|BYMA|24hs YPF ARS tick 0.5 open
}

func ExampleClient_Snapshot() {
	c := demo()
	defer c.Close()
	snapshot, err := c.Snapshot(context.Background(), "YPFD|BYMA|24hs")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, in := range snapshot.Instruments {
		fmt.Println(in.Instrument, in.Quote.Bid.Price, in.Quote.Ask.Price)
	}
	// Output: YPFD|BYMA|24hs 31390 31400
}

func ExampleClient_Subscribe() {
	c := demo()
	defer c.Close()
	err := errors.Join(
		c.Subscribe(client.Set{Trades: []string{"GGAL|BYMA|24hs"}, Quotes: []string{"*|BYMA|24hs"}, Conflate: 250 * time.Millisecond}),
		c.Subscribe(client.Set{Bars: []string{"GGAL|BYMA|24hs|5m"}}),
		c.Unsubscribe(client.Set{Trades: []string{"GGAL|BYMA|24hs"}}),
	)
	fmt.Println(err, c.Subscriptions().Quotes, c.Subscriptions().Bars)
	// Output: <nil> [*|BYMA|24hs] [GGAL|BYMA|24hs|5m]
}

func ExampleClient_Health() {
	c := demo()
	defer c.Close()
	h := c.Health()
	if h.State != client.Live {
		fmt.Println("the stream is", h.State)
	}
	for _, name := range h.Down {
		fmt.Println("the feed of", name, "is interrupted")
	}
	for id, in := range h.Instruments {
		if in.Age > time.Minute {
			fmt.Println(id, "is not known to be complete since", in.Age)
		}
	}
	// Output: the stream is idle
}

func ExampleClient_Checkpoint() {
	folder, err := os.MkdirTemp("", "volume")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "volume.json")

	// The sum and its checkpoint are in one file, so that they always match.
	type state struct {
		Volume     market.Size
		Checkpoint *client.Checkpoint
	}
	run := func(killed bool, sizes ...string) error {
		var s state
		if text, err := os.ReadFile(file); err == nil {
			if err := json.Unmarshal(text, &s); err != nil {
				return err
			}
		}
		c, err := client.New([]string{gateway.URL}, client.Options{Username: "demo", Password: "demo", Resume: s.Checkpoint})
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.Subscribe(client.Set{Trades: []string{"GGAL|BYMA|24hs"}}); err != nil {
			return err
		}
		for ev := range c.Events(context.Background()) {
			checkpoint := c.Checkpoint() // neither it nor the sum includes ev yet
			s.Checkpoint = &checkpoint
			text, err := json.Marshal(s)
			if err != nil {
				return err
			}
			err = errors.Join(os.WriteFile(file+".new", text, 0o600), os.Rename(file+".new", file)) // it is enough to do so from time to time
			if err != nil {
				return err
			}
			switch ev := ev.(type) {
			case *client.Trade:
				s.Volume += ev.Size
				fmt.Println("trade of", ev.Size, "volume", s.Volume)
				if killed && ev.Size == 30*market.Scale || ev.Size == 40*market.Scale {
					return nil // the file has the state before ev
				}
			case client.StateChange:
				if ev.State == client.Live { // a market has trades by itself
					for _, size := range sizes {
						gateway.Trade("GGAL|BYMA|24hs", "7050", size)
					}
				}
			}
		}
		return c.Err()
	}
	fmt.Println(run(true, "10", "20", "30"))
	fmt.Println(run(false, "40"))
	// Output:
	// trade of 10 volume 10
	// trade of 20 volume 30
	// trade of 30 volume 60
	// <nil>
	// trade of 30 volume 60
	// trade of 40 volume 100
	// <nil>
}

func ExampleFileStore() {
	folder, err := os.MkdirTemp("", "tokens")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	store := client.FileStore(filepath.Join(folder, "tokens.json"))

	c, err := client.New([]string{gateway.URL}, client.Options{Username: "demo", Password: "demo", Tokens: store})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	_, err = c.Login(context.Background())
	fmt.Println(err)

	// A later run of the program needs no password.
	later, err := client.New([]string{gateway.URL}, client.Options{Tokens: store})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer later.Close()
	_, err = later.Login(context.Background())
	fmt.Println(err)
	// Output:
	// <nil>
	// <nil>
}

func ExampleReasonOf() {
	c := demo()
	defer c.Close()
	_, err := c.Account(context.Background(), "another")
	switch client.ReasonOf(err) {
	case wire.NotFound:
		fmt.Println("there is no such account")
	case wire.RateLimited:
		fmt.Println("ask again later")
	}
	var e *client.Error
	fmt.Println(errors.As(err, &e) && e.Code == http.StatusNotFound)
	// Output:
	// there is no such account
	// true
}

func ExampleFloat64() {
	price, err := market.ParsePrice("31400.5")
	fmt.Println(price, client.Float64(price)/2, err)
	// Output: 31400.5 15700.25 <nil>
}
