package talk

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
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
		NoBook: index, QuotesFromFeed: index || id.Symbol == "GGAL" && id.Term == "CI", StartsEmpty: true,
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
	e.Handle = h
	if e.Time == 0 {
		e.Time = time.Now().UnixNano()
	}
	return w.Hub.Publish([]market.Event{e})
}

func (w *World) trade(args []string) error {
	if len(args) != 3 {
		return errors.New("trade ID PRICE SIZE")
	}
	return w.tradeAt(0, args)
}

func (w *World) late(args []string) error {
	if len(args) != 4 {
		return errors.New("late DURATION ID PRICE SIZE")
	}
	d, err := time.ParseDuration(args[0])
	if err != nil {
		return err
	}
	return w.tradeAt(time.Now().Add(-d).UnixNano(), args[1:])
}

// amend cancels or corrects a trade.
func amend(kind market.Kind) func(*World, []string) error {
	return func(w *World, args []string) error {
		if len(args) != 4 {
			return errors.New("ID TRADE PRICE SIZE")
		}
		l, err := level(args[2:])
		if err != nil {
			return err
		}
		return w.publish(args[0], market.Event{Kind: kind, TradeID: args[1], Price: l.Price, Size: l.Size})
	}
}

func (w *World) reference(args []string) error {
	if len(args) != 4 {
		return errors.New("reference ID CLOSE SETTLEMENT INTEREST")
	}
	closing, err := level([]string{args[1], args[3]})
	if err != nil {
		return err
	}
	settlement, err := market.ParsePrice(args[2])
	if err != nil {
		return err
	}
	return w.publish(args[0], market.Event{Kind: market.KindReference, PreviousClose: closing.Price, Settlement: settlement, OpenInterest: closing.Size})
}

func (w *World) tradeAt(at int64, args []string) error {
	l, err := level(args[1:])
	if err != nil {
		return err
	}
	w.trades++
	return w.publish(args[0], market.Event{
		Kind: market.KindTrade, Price: l.Price, Size: l.Size, Side: market.Buy, TradeID: strconv.Itoa(w.trades), Time: at,
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
	if phase == market.Gap {
		e.Kind, e.Phase = market.KindGap, market.NoPhase
	}
	return w.publish(args[0], e)
}

// speed returns Env.Speed.
func (w *World) speed() func(market.Size) (market.Size, error) {
	var now atomic.Int64 // sessions ask at any time
	now.Store(market.Scale)
	return func(speed market.Size) (market.Size, error) {
		if speed != 0 {
			now.Store(int64(speed))
		}
		return market.Size(now.Load()), nil
	}
}

// fault returns Env.Fault. The only fault of the market is a halt.
func (w *World) fault() func(string, market.InstrumentID) (string, *wire.Fault) {
	known := maps.Clone(w.handles) // sessions ask at any time
	return func(name string, id market.InstrumentID) (string, *wire.Fault) {
		if id == (market.InstrumentID{}) {
			id = market.InstrumentID{Symbol: "FAKE", Market: "SIM", Term: "CI"}
		}
		h, ok := known[id.String()]
		switch {
		case !ok:
			return "", wire.NewFault(wire.UnknownInstrument, "")
		case name != wire.SimHalt:
			return "", wire.NewFault(wire.UnsupportedOption, "This market does not know "+name)
		}
		e := market.Event{Kind: market.KindStatus, Handle: h, Time: time.Now().UnixNano(), Phase: market.Halt, Reason: "triggered"}
		if err := w.Hub.Publish([]market.Event{e}); err != nil {
			return "", wire.NewFault(wire.UnsupportedOption, err.Error())
		}
		return id.String() + ": trading is halted", nil
	}
}
