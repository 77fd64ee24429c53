package rest

import (
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/wire"
)

// password serves POST /auth/password, with which users change their own password.
func (h *Handler) password(q *request) (api.Result, error) {
	r, err := readBody(q, api.MediaJSON, maxTokenBody, wire.ReadPasswordRequest)
	if err != nil {
		return api.Result{}, err
	}
	tokens, err := h.self.ChangePassword(q.Context(), login(r.Credentials), r.NewPassword, q.origin())
	if err != nil {
		return api.Result{}, err
	}
	data := tokenResponse(&tokens)
	return api.Result{Object: data.Append(nil)}, nil
}

// otp serves POST /auth/otp, with which users manage their own second factor.
func (h *Handler) otp(q *request) (api.Result, error) {
	r, err := readBody(q, api.MediaJSON, maxTokenBody, wire.ReadOTPRequest)
	if err != nil {
		return api.Result{}, err
	}
	object := []byte("{}")
	switch r.Action {
	case wire.OTPEnrol:
		var e broker.Enrolment
		if e, err = h.self.Enrol(q.Context(), login(r.Credentials), q.origin()); err == nil {
			data := wire.Enrolment{Token: e.Token, Secret: e.Secret, URL: e.URL, ExpiresIn: int64(e.Life / time.Second)}
			object = data.Append(nil)
		}
	case wire.OTPConfirm:
		var tokens auth.Tokens
		var codes []string
		if tokens, codes, err = h.self.ConfirmEnrolment(q.Context(), auth.NewSecret(r.Enrolment), r.OTP, q.origin()); err == nil {
			data := tokenResponse(&tokens)
			object = wire.AppendConfirmed(nil, &data, codes)
		}
	case wire.OTPRecoveryCodes:
		var codes []string
		if codes, err = h.self.RenewRecoveryCodes(q.Context(), login(r.Credentials), q.origin()); err == nil {
			object = wire.AppendRecoveryCodes(nil, codes)
		}
	default:
		err = h.self.RemoveSecondFactor(q.Context(), login(r.Credentials), q.origin())
	}
	if err != nil {
		return api.Result{}, err
	}
	return api.Result{Object: object}, nil
}

func login(c wire.Credentials) broker.Login {
	return broker.Login{Username: c.Username, Password: c.Password, OTP: c.OTP}
}
