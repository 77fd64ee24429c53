// Package decode is what the decoders of recorded formats have in common.
//
// A decoder is a type with two methods:
//
//	Decode(data []byte, b *Batch) (n int, err error)
//	End(rest []byte, b *Batch) error
//
// Decode takes whole records from the head of data until the batch is full or no whole
// record is left, puts their events into the batch, and says how many bytes it took;
// with an error, how many bytes were good. End is called once, with what is left
// behind the last whole record, and says whether a file may end there.
//
// Decoders do no I/O, read no clock and start no goroutine. They keep nothing of data.
// In the events of a batch a handle is the index of an instrument in [Batch.Listed]:
// whoever publishes them defines those first and puts the sink's handles in.
//
// In steady state decoding allocates nothing for a record: what a batch needs is
// kept from one Reset to the next, and texts share blocks of memory.
package decode
