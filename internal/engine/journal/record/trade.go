package record

// appendTradeTexts appends the texts at the end of a trade, a cancel or a correction: the number of
// conditions, the id, and the conditions. A field added after them is absent from older rows.
func appendTradeTexts(b []byte, r *Row) []byte {
	list := r.Conditions[:min(len(r.Conditions), maxText)]
	b = append(b, byte(len(list)))
	b = appendText(b, r.ID)
	for _, s := range list {
		b = appendText(b, s)
	}
	return b
}

// tradeTexts decodes what appendTradeTexts appends. It returns false if a text is truncated.
func (d *Decoder) tradeTexts(r *Row, b []byte) bool {
	if len(b) == 0 {
		return false
	}
	count := int(b[0])
	text, rest, ok := cutText(b[1:])
	if !ok {
		return false
	}
	r.ID = d.text(text)
	r.Conditions = r.Conditions[:0]
	for range count {
		if text, rest, ok = cutText(rest); !ok {
			return false
		}
		r.Conditions = append(r.Conditions, d.word(text))
	}
	return true
}
