// Package market is a market for black-box tests: every price, size, level, count, status, time and
// id is a function of (instrument, event number). A test therefore checks each message by itself,
// and not against another output of the program.
//
// The time of an event is unique in its instrument, so [Instrument.At] finds the event of a
// message, and Trade, Book, Quote, Phase, Reference, Summary and Bar return what the message must
// contain. [Instrument.Line] is the line of the event for a feed of JSON lines. The source numbers
// the events of a channel from 1 on: [Instrument.Count] and [Instrument.Nth] convert.
package market
