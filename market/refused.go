package market

// Refused is the error that a sink returns for an event that breaks the contract of feeds.
type Refused struct {
	Index  int // of the event in the batch
	ID     InstrumentID
	Reason string // a stable lower_snake_case word
	Detail string
}

func (r *Refused) Error() string {
	return "event refused: " + r.ID.String() + ": " + r.Reason + ": " + r.Detail
}
