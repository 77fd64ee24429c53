// Package decode contains what the decoders of recorded formats have in common.
//
// A decoder is a type with two methods:
//
//	Decode(data []byte, b *Batch) (n int, err error)
//	End(rest []byte, b *Batch) error
//
// Decode decodes complete records from the beginning of data until the batch is full or no complete
// record is left. It adds their events to the batch and returns the number of bytes decoded; if it
// also returns an error, n is the number of valid bytes. End is called once, with the bytes after
// the last complete record, or with nil after an error. It returns an error if a file must not end
// there.
//
// Decoders do no I/O, read no clock and start no goroutines. They keep no reference to data. The
// handle of an event in a batch is the index of its instrument in [Batch.Listed]; the caller
// defines these instruments in its sink and replaces the handles.
//
// In the steady state, decoding a record allocates nothing: a batch keeps its memory after Reset,
// and texts share blocks of memory.
package decode
