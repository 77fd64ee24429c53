package auth

import (
	"context"
	"errors"
	"net/netip"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/base/clientaddr"
)

// errAddress is the cause of AddressNotAllowed.
var errAddress = errors.New("client is in none of the user's networks")

// CheckAddress returns an Error with AddressNotAllowed if a client may not use a verified token of
// a user: its address is in none of the user's networks. Refusals are in the audit log of s, one a
// minute for each login and client.
func CheckAddress(ctx context.Context, s *Service, userID, family string, networks []netip.Prefix, from Origin) error {
	if broker.AddressAllowed(networks, from.Address) {
		return nil
	}
	about := "address " + family + " " + clientaddr.Client(from.Address).String()
	s.noteOnce(ctx, about, audit.Event{Kind: audit.AddressRefused, User: userID, Family: family}, from)
	return refuse(AddressNotAllowed, errAddress)
}
