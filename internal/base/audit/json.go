package audit

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"time"
)

// shownRow is the JSON form of a row.
type shownRow struct {
	Seq     int64     `json:"seq"`
	Time    time.Time `json:"time"`
	Kind    Kind      `json:"kind"`
	Actor   string    `json:"actor"`
	User    string    `json:"user,omitempty"`
	Family  string    `json:"family,omitempty"`
	Address string    `json:"address,omitempty"`
	Client  string    `json:"client,omitempty"`
	Detail  string    `json:"detail,omitempty"`
	Hash    string    `json:"hash"`
}

// WriteJSON writes a row as one line of JSON.
func (r Row) WriteJSON(out io.Writer) error {
	line, err := json.Marshal(shownRow{
		Seq: r.Seq, Time: r.Time.UTC(), Kind: r.Kind, Actor: r.Actor, User: r.User, Family: r.Family,
		Address: r.Address, Client: r.Client, Detail: r.Detail, Hash: hex.EncodeToString(r.Hash[:]),
	})
	if err != nil {
		return err
	}
	_, err = out.Write(append(line, '\n'))
	return err
}
