package wire

import (
	"bytes"
	"strconv"

	"github.com/ruedahq/rueda/market"
)

// Line is one event of a recording or of a feed, written as a JSON object. It is a data message as
// clients receive it, without the members that the server adds (N, D, L, DL, K), so a recorded
// stream can be fed to another server. [LineDecoder] decodes lines; [AppendLine] and
// [AppendDefinition] encode them.
//
//	{"type":"F","I":"GGAL|BYMA|24hs","currency":"ARS","price_decimals":2,"size_decimals":0}
//	{"type":"T","I":"GGAL|BYMA|24hs","P":7050,"Z":120,"X":"88123","G":"B","SQ":17}
//	{"type":"O","I":"GGAL|BYMA|24hs","R":true,"B":[[7049.5,300,4]],"A":[[7050,1200,9]]}
//	{"type":"O","I":"GGAL|BYMA|24hs","A":[[7050,0]]}
//	{"type":"Gap","I":"GGAL|BYMA|24hs","Y":"line_down"}
//
//	type  meaning           required            optional
//	F     definition        I price_decimals    name kind isin currency multiplier tick lot
//	                        size_decimals       min_size settlement_days status own_quotes
//	                                            no_book virtual_clock
//	T     trade             I P Z               X G C
//	X     cancel            I X P Z             G C
//	C     correction        I X P Z XP XZ       G C
//	Q     best bid, offer   I                   BP with BZ (and BC), AP with AZ (and AC)
//	O     complete book     I R:true B A
//	O     changed levels    I, B or A           B A
//	H     trading status    I E                 Y U
//	D     reference         I                   CL SE OI
//	Gap   lost events       I                   Y
//
// D holds the previous close, the settlement price and the open interest, each if known. The other
// figures of a summary are computed from trades. So are bars; there is no line for K.
//
// All types except F may have T (event time), RT (receive time) and SQ (the source's own sequence,
// an integer; 0 means none). I is SYMBOL|MARKET|TERM; in H and Gap it may be *|MARKET|*, the market
// as a whole. S is optional and must be the symbol of I. Prices and sizes are JSON numbers without
// exponent. Levels are best first, with each price once per side. Times follow RFC 3339, and
// reasons are lower_snake_case. The members of F are those of GET /market/instruments and three
// more. They are own_quotes (quotes come as Q lines and are not derived from the book), no_book
// (there are no O lines) and virtual_clock (T is not in the present). null counts as absent.
// Unknown returns the name of the first unknown member. No name may occur twice, not even with
// different case.
type Line struct {
	ID         market.InstrumentID // exact, or *|MARKET|*
	Definition *market.Instrument  // of F; nil for other types
	Event      market.Event        // of all types except F; Handle is not set
	Unknown    string              // the first unknown member, truncated; "": none
}

// Limits on what a line may hold, because sinks keep it.
const (
	maxLineText       = 200 // bytes of a text: name, trade id, reason, ...
	maxLineConditions = 16
	maxLineMembers    = 64
	maxUnknown        = 40 // bytes of the name of an unknown member
)

// LineDecoder decodes lines. It keeps its buffers and frequent texts, so that in the steady state
// it allocates only for trade ids and conditions. The zero LineDecoder is ready to use. A
// LineDecoder is not safe for concurrent use.
type LineDecoder struct {
	members    members
	ids        map[string]market.InstrumentID
	words      map[string]string
	bids, asks []market.Level
}

// Decode decodes one line into l. Bids and Asks of the event are valid until the next call. The
// fault is BadJSON, BadMessage (unknown type), BadInstrument or BadField; l then has the ID and the
// Kind of the event if they could be read.
func (d *LineDecoder) Decode(data []byte, l *Line) *Fault {
	*l = Line{}
	if err := d.members.scan(data); err != nil {
		return NewFault(BadJSON, err.Error())
	}
	if others := d.members.others; len(others) > 0 {
		l.Unknown = string(others[0][:min(len(others[0]), maxUnknown)])
	}
	r := lineReader{m: &d.members, words: d}
	kind, f := r.kind()
	if f != nil {
		return f
	}
	l.Event.Kind = kind
	if l.ID, f = r.instrument(kind); f != nil {
		return f
	}
	if kind == 0 {
		l.Definition, f = r.definition(l.ID)
		return f
	}
	e := &l.Event
	e.Time, e.Receive, e.Sequence = r.time(keyT), r.time(keyRT), r.integer(keySQ, 1<<64-1)
	switch kind {
	case market.KindTrade, market.KindCancel, market.KindCorrect:
		r.trade(e)
	case market.KindQuote:
		d.bids, d.asks = r.top(d.bids[:0], keyBP, keyBZ, keyBC), r.top(d.asks[:0], keyAP, keyAZ, keyAC)
		e.Bids, e.Asks = d.bids, d.asks
	case market.KindSnapshot, market.KindUpdate:
		whole := kind == market.KindSnapshot
		d.bids, d.asks = r.levels(d.bids[:0], keyB, whole), r.levels(d.asks[:0], keyA, whole)
		e.Bids, e.Asks = d.bids, d.asks
		if !whole && len(d.bids)+len(d.asks) == 0 {
			r.bad(keyB, "and A have no levels, and R is not true")
		}
	case market.KindStatus:
		r.status(e)
	case market.KindGap:
		e.Reason = r.reason()
	case market.KindReference:
		e.PreviousClose, e.Settlement, e.OpenInterest = r.priceIf(keyCL), r.priceIf(keySE), r.size(keyOI)
	}
	return r.fault
}

// lineReader converts the members of a line. Its methods record the first fault and return zero
// values after it.
type lineReader struct {
	m     *members
	words *LineDecoder
	fault *Fault
}

func (r *lineReader) bad(k lineKey, what string) {
	if r.fault == nil {
		r.fault = NewFault(BadField, k.String()+" "+what)
	}
}

// kind returns the kind of event, or 0 for a definition.
func (r *lineReader) kind() (market.Kind, *Fault) {
	if v, ok := r.m.get(keyType); ok && v.kind == String {
		switch string(v.text) {
		case "F":
			return 0, nil
		case "T":
			return market.KindTrade, nil
		case "X":
			return market.KindCancel, nil
		case "C":
			return market.KindCorrect, nil
		case "Q":
			return market.KindQuote, nil
		case "O":
			if r.flag(keyR) {
				return market.KindSnapshot, r.fault
			}
			return market.KindUpdate, r.fault
		case "H":
			return market.KindStatus, nil
		case "Gap":
			return market.KindGap, nil
		case "D":
			return market.KindReference, nil
		}
	}
	return 0, NewFault(BadMessage, "type must be one of T X C Q O H D F Gap")
}

// instrument parses I and checks S against it.
func (r *lineReader) instrument(kind market.Kind) (market.InstrumentID, *Fault) {
	v, ok := r.m.get(keyI)
	if !ok || v.kind != String {
		return market.InstrumentID{}, NewFault(BadInstrument, "I must be a string SYMBOL|MARKET|TERM")
	}
	id, ok := r.words.id(v.text)
	if !ok || id.Market == market.Any || (id.Symbol == market.Any) != (id.Term == market.Any) {
		return market.InstrumentID{}, NewFault(BadInstrument, "I is not of the form SYMBOL|MARKET|TERM")
	}
	if id.IsPattern() && kind != market.KindStatus && kind != market.KindGap {
		return id, NewFault(BadInstrument, "I must be one instrument: *|MARKET|* is only allowed for H and Gap")
	}
	if s, ok := r.m.get(keyS); ok && (s.kind != String || string(s.text) != id.Symbol) {
		return id, NewFault(BadField, "S must be the symbol of I")
	}
	return id, nil
}

func (r *lineReader) trade(e *market.Event) {
	e.Price, e.Size = r.price(keyP), r.positive(keyZ)
	e.TradeID = r.text(keyX)
	if e.Kind != market.KindTrade && e.TradeID == "" {
		r.bad(keyX, "must name the trade, a string")
	}
	if e.Kind == market.KindCorrect {
		e.OldPrice, e.OldSize = r.price(keyXP), r.positive(keyXZ)
	}
	switch r.text(keyG) {
	case "":
	case "B":
		e.Side = market.Buy
	case "S":
		e.Side = market.Sell
	default:
		r.bad(keyG, "must be B or S")
	}
	e.Conditions = r.conditions()
}

func (r *lineReader) status(e *market.Event) {
	var ok bool
	if e.Phase, ok = market.ParsePhase(r.word(keyE)); !ok {
		r.bad(keyE, "must be a trading status: open, halt, closed, ...")
	}
	e.Reason, e.Until = r.reason(), r.time(keyU)
}

// top returns one side of a quote: at most one level.
func (r *lineReader) top(dst []market.Level, price, size, orders lineKey) []market.Level {
	_, hasPrice := r.m.get(price)
	_, hasSize := r.m.get(size)
	_, hasOrders := r.m.get(orders)
	switch {
	case hasPrice != hasSize:
		r.bad(price, "and "+size.String()+" come together")
	case hasPrice:
		return append(dst, market.Level{Price: r.price(price), Size: r.positive(size), Orders: uint32(r.integer(orders, 1<<32-1))})
	case hasOrders:
		r.bad(orders, "comes with "+price.String()+" alone")
	}
	return dst
}

// levels parses one side of a book. A complete book has both sides and no empty level.
func (r *lineReader) levels(dst []market.Level, k lineKey, whole bool) []market.Level {
	v, ok := r.m.get(k)
	if !ok {
		if whole {
			r.bad(k, "is required with R:true, an array of levels")
		}
		return dst
	}
	if v.kind != Array {
		r.bad(k, "must be an array of levels [price,size] or [price,size,orders]")
		return dst
	}
	for row := range rows(v.text) {
		if row.n != 2 && row.n != 3 {
			r.bad(k, "must be an array of levels [price,size] or [price,size,orders]")
			return dst
		}
		l := market.Level{Price: r.toPrice(k, row.num[0]), Size: r.toSize(k, row.num[1])}
		if row.n == 3 {
			l.Orders = uint32(r.toInteger(k, row.num[2], 1<<32-1))
		}
		if l.Size == 0 {
			l.Orders = 0
		}
		switch {
		case r.fault != nil:
			return dst
		case whole && l.Size == 0:
			r.bad(k, "must not have an empty level with R:true")
		case len(dst) == 0:
		case k == keyB && l.Price >= dst[len(dst)-1].Price, k == keyA && l.Price <= dst[len(dst)-1].Price:
			r.bad(k, "must have the best price first and each price once")
		}
		dst = append(dst, l)
	}
	return dst
}

// definition parses F.
func (r *lineReader) definition(id market.InstrumentID) (*market.Instrument, *Fault) {
	for _, k := range [...]lineKey{keyPriceDecimals, keySizeDecimals} {
		if _, ok := r.m.get(k); !ok {
			r.bad(k, "is required, an integer from 0 to 8")
		}
	}
	in := &market.Instrument{
		ID:             id,
		Name:           r.text(keyName),
		Kind:           r.text(keyKind),
		ISIN:           r.text(keyISIN),
		Currency:       r.text(keyCurrency),
		SettlementDays: int(r.integer(keySettlementDays, 366)),
		PriceDecimals:  int(r.integer(keyPriceDecimals, 8)),
		SizeDecimals:   int(r.integer(keySizeDecimals, 8)),
		Multiplier:     r.size(keyMultiplier),
		Lot:            r.size(keyLot),
		MinSize:        r.size(keyMinSize),
		Ticks:          r.ticks(),
		QuotesFromFeed: r.flag(keyOwnQuotes),
		NoBook:         r.flag(keyNoBook),
		VirtualClock:   r.flag(keyVirtualClock),
	}
	if s := r.text(keyStatus); s != "" {
		var ok bool
		if in.Phase, ok = market.ParsePhase(s); !ok || in.Phase.OfFeed() {
			r.bad(keyStatus, "must be a trading status: open, halt, closed, ...")
		}
	}
	if r.fault != nil {
		return nil, r.fault
	}
	if err := in.Validate(); err != nil {
		return nil, NewFault(BadField, err.Error())
	}
	return in, nil
}

func (r *lineReader) ticks() []market.Tick {
	v, ok := r.m.get(keyTick)
	if !ok {
		return nil
	}
	if v.kind != Array {
		r.bad(keyTick, "must be an array of rows [from,step]")
		return nil
	}
	var ticks []market.Tick
	for row := range rows(v.text) {
		if row.n != 2 {
			r.bad(keyTick, "must be an array of rows [from,step]")
			return nil
		}
		ticks = append(ticks, market.Tick{From: r.toPrice(keyTick, row.num[0]), Step: r.toPrice(keyTick, row.num[1])})
	}
	return ticks
}

// conditions parses C, an array of strings.
func (r *lineReader) conditions() []string {
	v, ok := r.m.get(keyC)
	if !ok {
		return nil
	}
	// The array is known to be well formed. Parsing it again is cheap, because conditions are rare.
	list, err := ParseJSON(v.text)
	if v.kind != Array || err != nil || len(list.Items) > maxLineConditions {
		r.bad(keyC, "must be an array of at most "+strconv.Itoa(maxLineConditions)+" strings")
		return nil
	}
	conditions := make([]string, 0, len(list.Items))
	for i := range list.Items {
		if list.Items[i].Kind != String || list.Items[i].Text == "" || len(list.Items[i].Text) > maxLineText {
			r.bad(keyC, "must contain strings of 1 to "+strconv.Itoa(maxLineText)+" bytes")
			return nil
		}
		conditions = append(conditions, r.words.word([]byte(list.Items[i].Text)))
	}
	return conditions
}

// reason returns Y, a lower_snake_case word.
func (r *lineReader) reason() string {
	s := r.word(keyY)
	for i := range len(s) {
		if c := s[i]; c != '_' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			r.bad(keyY, "must be a word in lower_snake_case")
			return ""
		}
	}
	return s
}

// bytes returns an optional string member.
func (r *lineReader) bytes(k lineKey) []byte {
	v, ok := r.m.get(k)
	if !ok {
		return nil
	}
	if v.kind != String || len(v.text) > maxLineText {
		r.bad(k, "must be a string of at most "+strconv.Itoa(maxLineText)+" bytes")
		return nil
	}
	return v.text
}

func (r *lineReader) text(k lineKey) string { return string(r.bytes(k)) }

// word returns an optional string member that has few distinct values.
func (r *lineReader) word(k lineKey) string { return r.words.word(r.bytes(k)) }

func (r *lineReader) flag(k lineKey) bool {
	v, ok := r.m.get(k)
	if ok && v.kind != Bool {
		r.bad(k, "must be true or false")
	}
	return ok && bytes.Equal(v.text, []byte("true"))
}

func (r *lineReader) time(k lineKey) int64 {
	v, ok := r.m.get(k)
	if !ok {
		return 0
	}
	ns, err := ParseTime(v.text)
	if v.kind != String || err != nil {
		r.bad(k, "must be an RFC 3339 time between the years 1970 and 2261")
	}
	return ns
}

// number returns an optional number member, nil if it is absent.
func (r *lineReader) number(k lineKey) []byte {
	v, ok := r.m.get(k)
	if !ok {
		return nil
	}
	if v.kind != Number {
		r.bad(k, "must be a number")
		return nil
	}
	return v.text
}

// integer returns an optional integer up to most, 0 if it is absent.
func (r *lineReader) integer(k lineKey, most uint64) uint64 {
	text := r.number(k)
	if text == nil {
		return 0
	}
	return r.toInteger(k, text, most)
}

func (r *lineReader) toInteger(k lineKey, text []byte, most uint64) uint64 {
	var v uint64
	for _, c := range text {
		d := uint64(c - '0')
		if d > 9 || v > most/10 || v == most/10 && d > most%10 {
			r.bad(k, "must be or contain integers from 0 to "+strconv.FormatUint(most, 10))
			return 0
		}
		v = v*10 + d
	}
	return v
}

// price returns a required price.
func (r *lineReader) price(k lineKey) market.Price {
	if text := r.number(k); text != nil {
		return r.toPrice(k, text)
	}
	r.bad(k, "is required, a number")
	return 0
}

// priceIf returns an optional price, 0 if it is absent.
func (r *lineReader) priceIf(k lineKey) market.Price {
	if text := r.number(k); text != nil {
		return r.toPrice(k, text)
	}
	return 0
}

func (r *lineReader) toPrice(k lineKey, text []byte) market.Price {
	p, err := market.ParsePrice(text)
	if err != nil {
		r.bad(k, "is not a price: "+err.Error())
	}
	return p
}

// positive returns a required size above 0.
func (r *lineReader) positive(k lineKey) market.Size {
	text := r.number(k)
	if text == nil {
		r.bad(k, "is required, a number above 0")
		return 0
	}
	z := r.toSize(k, text)
	if z == 0 {
		r.bad(k, "must be above 0")
	}
	return z
}

// size returns an optional size, 0 if it is absent.
func (r *lineReader) size(k lineKey) market.Size {
	if text := r.number(k); text != nil {
		return r.toSize(k, text)
	}
	return 0
}

func (r *lineReader) toSize(k lineKey, text []byte) market.Size {
	z, err := market.ParseSize(text)
	if err != nil {
		r.bad(k, "is not a size: "+err.Error())
	}
	return z
}
