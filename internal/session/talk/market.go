package talk

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ruedahq/rueda/market"
)

// list lists an instrument. INDEX has no book; it and the term CI of GGAL have
// quotes of their own.
func (w *World) list(args []string) error {
	if len(args) != 1 {
		return errors.New("list ID")
	}
	id, err := market.ParseInstrumentID(args[0])
	if err != nil {
		return err
	}
	index := id.Symbol == "INDEX"
	h, err := w.Hub.Define(market.Instrument{
		ID: id, Name: id.Symbol, Currency: "ARS", PriceDecimals: 2,
		NoBook: index, OwnQuotes: index || id.Symbol == "GGAL" && id.Term == "CI", BookReady: true,
	})
	w.handles[args[0]] = h
	return err
}

// publish publishes an event of an instrument, or of a market as a whole.
func (w *World) publish(id string, e market.Event) error {
	h, ok := w.handles[id]
	if !ok && strings.HasPrefix(id, "*|") {
		pattern, err := market.ParsePattern(id)
		if err != nil {
			return err
		}
		if h, err = w.Hub.Define(market.Instrument{ID: pattern}); err != nil {
			return err
		}
		w.handles[id], ok = h, true
	}
	if !ok {
		return fmt.Errorf("%s is not listed", id)
	}
	e.Handle, e.Time = h, time.Now().UnixNano()
	return w.Hub.Publish([]market.Event{e})
}

func (w *World) trade(args []string) error {
	if len(args) != 3 {
		return errors.New("trade ID PRICE SIZE")
	}
	l, err := level(args[1:])
	if err != nil {
		return err
	}
	w.trades++
	return w.publish(args[0], market.Event{
		Kind: market.KindTrade, Price: l.Price, Size: l.Size, Side: market.Buy, TradeID: strconv.Itoa(w.trades),
	})
}

func (w *World) quote(args []string) error { return w.sides(market.KindQuote, args) }

func (w *World) book(args []string) error { return w.sides(market.KindSnapshot, args) }

func (w *World) sides(kind market.Kind, args []string) error {
	if len(args) != 5 {
		return errors.New("ID BID SIZE ASK SIZE")
	}
	bid, err := level(args[1:3])
	if err != nil {
		return err
	}
	ask, err := level(args[3:])
	if err != nil {
		return err
	}
	return w.publish(args[0], market.Event{Kind: kind, Bids: []market.Level{bid}, Asks: []market.Level{ask}})
}

func level(args []string) (l market.Level, err error) {
	if l.Price, err = market.ParsePrice(args[0]); err != nil {
		return l, err
	}
	l.Size, err = market.ParseSize(args[1])
	return l, err
}

func (w *World) status(args []string) error {
	if len(args) < 2 {
		return errors.New("status ID PHASE [REASON]")
	}
	phase, ok := market.ParsePhase(args[1])
	if !ok {
		return fmt.Errorf("unknown phase %q", args[1])
	}
	e := market.Event{Kind: market.KindStatus, Phase: phase}
	if len(args) > 2 {
		e.Reason = args[2]
	}
	return w.publish(args[0], e)
}
