package operator

import (
	"context"
	"encoding/hex"
	"strconv"

	"github.com/ruedahq/rueda/internal/api/adminapi"
	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/wire"
)

// readSeq parses the number of a row in the audit log. It returns -1, which stands for the newest
// rows, if text is empty.
func readSeq(text string) (int64, *wire.Failure) {
	if text == "" {
		return -1, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, wire.NewFailure(wire.BadField, "after", "must be the number of a row, or 0")
	}
	return n, nil
}

// readAudit returns up to limit rows of the audit log, in its order: the newest rows if after is
// negative, and otherwise the first rows after that number. user and kind select rows; empty, they
// select all. It looks at mostRead rows at most.
func readAudit(ctx context.Context, log Audit, user string, kind audit.Kind, after int64, limit int) (answer adminapi.AuditRows, err error) {
	answer.Rows = []adminapi.AuditRow{}
	add := func(row *audit.Row) { answer.Rows = append(answer.Rows, auditRow(row)) }
	if after < 0 {
		newest, err := log.AuditLast(ctx, 1, "", "")
		if err != nil {
			return answer, err
		}
		for i := range newest {
			answer.Last = newest[i].Seq
		}
		list, err := log.AuditLast(ctx, limit, user, kind)
		for i := range list {
			add(&list[i])
			answer.Last = max(answer.Last, list[i].Seq)
		}
		return answer, err
	}
	answer.Last = after
	read := 0
	for row, err := range log.AuditRows(ctx, after) {
		if err != nil {
			return answer, err
		}
		answer.Last = row.Seq
		if (user == "" || row.User == user) && (kind == "" || row.Kind == kind) {
			add(&row)
		}
		if read++; len(answer.Rows) == limit || read == mostRead {
			break
		}
	}
	return answer, nil
}

func auditRow(r *audit.Row) adminapi.AuditRow {
	return adminapi.AuditRow{
		Seq: r.Seq, Time: r.Time.UTC(), Kind: string(r.Kind), Actor: r.Actor, User: r.User, Family: r.Family,
		Address: r.Address, Client: r.Client, Detail: r.Detail, Hash: hex.EncodeToString(r.Hash[:]),
	}
}
