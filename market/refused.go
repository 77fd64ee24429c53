package market

// Refused is the error of a sink for one event of a batch that breaks the contract of feeds.
type Refused struct {
	Index  int // in the batch
	ID     InstrumentID
	Reason string // a stable lower_snake_case word
	Detail string
}

func (r *Refused) Error() string {
	return "event refused: " + r.ID.String() + ": " + r.Reason + ": " + r.Detail
}
