package admin

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/api/adminapi"
	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// askEvery is the interval between two requests for new rows of the audit log, and mostAsked is the
// largest number of rows of a request.
const (
	askEvery  = time.Second
	mostAsked = 1000
)

// tailServed prints rows of the audit log of a running gateway.
func (o *auditOptions) tailServed(ctx context.Context, std command.Streams) error {
	if err := o.checkTail(); err != nil {
		return err
	}
	if o.lines > mostAsked {
		return command.Fail(command.ExitUsage, fmt.Errorf("-n %d: a gateway shows at most %d rows at a time", o.lines, mostAsked), "Use --config FILE or --data DIR without --token-file for more.")
	}
	if err := o.resolveUser(ctx); err != nil {
		return err
	}
	query := url.Values{}
	for name, value := range map[string]string{"user": o.user, "kind": o.kind} {
		if value != "" {
			query.Set(name, value)
		}
	}
	query.Set("limit", strconv.Itoa(max(1, o.lines)))
	list, last, err := o.askRows(ctx, query)
	if err != nil {
		return err
	}
	if o.lines == 0 {
		list = nil
	}
	if err := o.printNewest(std, list); err != nil || !o.follow {
		return err
	}
	look := time.NewTicker(askEvery)
	defer look.Stop()
	query.Set("limit", strconv.Itoa(mostAsked))
	for {
		select {
		case <-ctx.Done():
			return nil // interrupted
		case <-look.C:
		}
		query.Set("after", strconv.FormatInt(last, 10))
		if list, last, err = o.askRows(ctx, query); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if err := o.print(list); err != nil {
			return err
		}
	}
}

// askRows returns rows, and the newest row that the gateway looked at.
func (o *auditOptions) askRows(ctx context.Context, query url.Values) ([]audit.Row, int64, error) {
	var answer adminapi.AuditRows
	if err := o.place.gateway.Send(ctx, http.MethodGet, "/admin/audit?"+query.Encode(), nil, &answer); err != nil {
		return nil, 0, err
	}
	list := make([]audit.Row, len(answer.Rows))
	for i, r := range answer.Rows {
		list[i] = audit.Row{Seq: r.Seq, Event: audit.Event{
			Time: r.Time, Kind: audit.Kind(r.Kind), Actor: r.Actor, User: r.User, Family: r.Family, Address: r.Address, Client: r.Client, Detail: r.Detail,
		}}
		if n, err := hex.Decode(list[i].Hash[:], []byte(r.Hash)); err != nil || n != len(list[i].Hash) {
			return nil, 0, errors.New("the gateway sent a row of the audit log without its hash")
		}
	}
	return list, answer.Last, nil
}

// resolveUser makes an id of the name of a user. A token without the role identity cannot read
// names, so that the user is then an id.
func (o *auditOptions) resolveUser(ctx context.Context) error {
	if o.user == "" {
		return nil
	}
	users := servedUsers{&o.place.gateway}
	u, err := users.find(ctx, o.user)
	switch status, _, _ := command.Outcome(ctx, err); {
	case err == nil:
		o.user = u.ID
	case errors.Is(err, broker.ErrNotFound), status == command.ExitRefused:
	default:
		return err
	}
	return nil
}
