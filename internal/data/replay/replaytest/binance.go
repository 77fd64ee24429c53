package replaytest

import (
	"fmt"
	"strings"
)

// Binance writes a capture of messages of BTCUSDT to Bytes. Receive times are in ns, times of
// messages in ms; prices and sizes are decimal numbers as Binance writes them.
type Binance struct {
	Bytes   []byte
	Futures bool // otherwise spot
}

// Text is a level: price and size.
type Text [2]string

func (w *Binance) line(receive int64, format string, args ...any) {
	w.Bytes = fmt.Appendf(w.Bytes, "%d ", receive)
	w.Bytes = fmt.Appendf(w.Bytes, format+"\n", args...)
}

// Trade writes a message of the stream trade.
func (w *Binance) Trade(receive, t int64, id uint64, price, size string, maker bool) {
	if w.Futures {
		w.line(receive, `{"stream":"btcusdt@trade","data":{"e":"trade","E":%d,"T":%d,"s":"BTCUSDT","t":%d,"p":%q,"q":%q,"X":"MARKET","m":%t}}`, t+1, t, id, price, size, maker)
		return
	}
	w.line(receive, `{"stream":"btcusdt@trade","data":{"e":"trade","E":%d,"s":"BTCUSDT","t":%d,"p":%q,"q":%q,"T":%d,"m":%t,"M":true}}`, t+1, id, price, size, t, maker)
}

// Aggregate writes a message of the stream aggTrade with the trades from first to last.
func (w *Binance) Aggregate(receive, t int64, id, first, last uint64, price, size string, maker bool) {
	spot := `,"M":true`
	if w.Futures {
		spot = ""
	}
	w.line(receive, `{"stream":"btcusdt@aggTrade","data":{"e":"aggTrade","E":%d,"a":%d,"s":"BTCUSDT","p":%q,"q":%q,"f":%d,"l":%d,"T":%d,"m":%t%s}}`, t+1, id, price, size, first, last, t, maker, spot)
}

// Quote writes a message of the stream bookTicker.
func (w *Binance) Quote(receive, t int64, id uint64, bid, ask Text) {
	if w.Futures {
		w.line(receive, `{"stream":"btcusdt@bookTicker","data":{"e":"bookTicker","u":%d,"s":"BTCUSDT","b":%q,"B":%q,"a":%q,"A":%q,"T":%d,"E":%d}}`, id, bid[0], bid[1], ask[0], ask[1], t, t+1)
		return
	}
	w.line(receive, `{"stream":"btcusdt@bookTicker","data":{"u":%d,"s":"BTCUSDT","b":%q,"B":%q,"a":%q,"A":%q}}`, id, bid[0], bid[1], ask[0], ask[1])
}

// Depth writes a message of the stream depth.
func (w *Binance) Depth(receive, t int64, first, last, previous uint64, bids, asks []Text) {
	if w.Futures {
		w.line(receive, `{"stream":"btcusdt@depth@0ms","data":{"e":"depthUpdate","E":%d,"T":%d,"s":"BTCUSDT","U":%d,"u":%d,"pu":%d,"b":%s,"a":%s}}`, t+1, t, first, last, previous, side(bids), side(asks))
		return
	}
	w.line(receive, `{"stream":"btcusdt@depth@100ms","data":{"e":"depthUpdate","E":%d,"s":"BTCUSDT","U":%d,"u":%d,"b":%s,"a":%s}}`, t, first, last, side(bids), side(asks))
}

// Snapshot writes an answer of the REST interface.
func (w *Binance) Snapshot(receive, t int64, id uint64, bids, asks []Text) {
	times := ""
	if w.Futures {
		times = fmt.Sprintf(`"E":%d,"T":%d,`, t+1, t)
	}
	w.line(receive, `{"lastUpdateId":%d,%s"bids":%s,"asks":%s}`, id, times, side(bids), side(asks))
}

// Others are messages of other streams, and an answer to a subscription.
var Others = []string{
	`{"stream":"btcusdt@ticker","data":{"e":"24hrTicker","E":1,"s":"BTCUSDT","p":"-94.99","P":"-95.960","w":"0.29","b":"4","B":"431","u":"x","a":"5","A":"0"}}`,
	`{"stream":"btcusdt@kline_1m","data":{"e":"kline","E":1,"s":"BTCUSDT","k":{"t":1,"T":2,"s":"BTCUSDT","i":"1m","o":"1","x":false}}}`,
	`{"stream":"btcusdt@forceOrder","data":{"e":"forceOrder","E":1,"o":{"s":"BTCUSDT","S":"SELL","p":"9910"}}}`,
	`{"stream":"!miniTicker@arr","data":[{"e":"24hrMiniTicker","E":1,"s":"BNBUSDT","c":"1"}]}`,
	`{"stream":"!ticker_1h@arr","data":[{"e":"1hTicker","E":1,"s":"BNBUSDT","c":"1"}]}`,
	`{"stream":"btcusdt@markPrice@1s","data":{"e":"markPriceUpdate","E":1,"s":"BTCUSDT","p":"1","i":"1","P":"1","r":"0.1","T":1}}`,
	`{"result":null,"id":1}`,
	`{"error":{"code":3,"msg":"Invalid JSON"},"id":1}`,
}

// PartialBook is a message of the stream depth20.
const PartialBook = `{"stream":"btcusdt@depth20@100ms","data":{"lastUpdateId":160,"bids":[["1","10"]],"asks":[["2","100"]]}}`

// Other writes a message as it is.
func (w *Binance) Other(receive int64, message string) { w.line(receive, "%s", message) }

func side(levels []Text) string {
	var list []string
	for _, l := range levels {
		list = append(list, fmt.Sprintf("[%q,%q]", l[0], l[1]))
	}
	return "[" + strings.Join(list, ",") + "]"
}
