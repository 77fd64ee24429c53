package verify

import "slices"

// missing checks that the channels of a recording or a journal have the messages that follow from
// those of other channels.
func (in *instrument) missing() {
	v := in.v
	if v.expects("quotes") && in.quotes.n == 0 && in.tops.moved > 1 && v.waited(in.tops.movedAt) {
		const text = "no quote came, but the top of the book moved %d times"
		if v.config.Ordered && in.def != nil && !in.def.QuotesFromFeed {
			v.judged(Quote)
			v.wrong(Quote, in, Position{}, text, in.tops.moved)
		} else { // their source may have none
			v.Note("%s: "+text, in.id, in.tops.moved)
		}
	}
	first := in.log.traded
	if first.time == 0 || !v.expects("trades") || !v.waited(first.received) {
		return
	}
	newest := in.newest
	if first.real { // bars end by the gateway's clock
		newest = min(newest, max(v.now.at, v.published))
	}
	if v.expects("summary") && in.summaries.n == 0 {
		v.judged(Summary)
		v.wrong(Summary, in, Position{Time: first.time}, "trades came, but no summary")
	}
	for i := range intervals {
		word, length := intervals[i].word, intervals[i].length
		if v.expects("bars") && slices.Contains(v.config.Intervals, word) && in.bars[word] == nil && floor(newest, length) > floor(first.time, length)+length {
			v.judged(Bars)
			v.wrong(Bars, in, Position{Time: first.time}, "trades came, but no bar of %s", word)
		}
	}
}
