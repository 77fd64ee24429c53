package rest

import (
	"github.com/ruedahq/rueda/internal/auth"
	"github.com/ruedahq/rueda/wire"
)

// sessions is GET /auth/sessions: the logins of the token's own user.
func (h *Handler) sessions(q *request) (result, error) {
	list, err := h.cfg.Auth.Sessions(q.Context(), q.identity)
	if err != nil {
		return result{}, err
	}
	return result{object: h.appendSessions(list)}, nil
}

// endSession is DELETE /auth/sessions/{sid}. One of another user is not found, as if there were none.
func (h *Handler) endSession(q *request) (result, error) {
	if err := h.cfg.Auth.EndSession(q.Context(), q.identity, q.segment, q.origin()); err != nil {
		return result{}, err
	}
	return result{object: []byte("{}")}, nil
}

// endSessions is DELETE /auth/sessions: all logins of the token's own user end, with keep=current all but the token's.
func (h *Handler) endSessions(q *request) (result, error) {
	keep := q.params.get("keep")
	if keep != "" && keep != "current" {
		return result{}, wire.NewFailure(wire.BadField, "keep", "must be current, or left out")
	}
	ended, err := h.cfg.Auth.EndSessions(q.Context(), q.identity, keep != "", q.origin())
	if err != nil {
		return result{}, err
	}
	return result{object: wire.AppendEnded(nil, ended)}, nil
}

func (h *Handler) appendSessions(list []auth.Session) []byte {
	rows := make([]wire.Session, len(list))
	for i, s := range list {
		rows[i] = wire.Session{
			ID: s.ID, Created: s.Created, Used: s.Used, Address: s.Address, Client: s.Client,
			Connections: h.cfg.Sockets(s.ID), Current: s.Current,
		}
	}
	return wire.AppendSessions(nil, rows)
}
