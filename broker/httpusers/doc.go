// Package httpusers is a user base behind a web service of the broker: three POST requests with
// JSON bodies.
//
//	POST {url}/authenticate  {"username":"ana","password":"...","otp":"123456","address":"192.0.2.7","client":"..."}
//	POST {url}/user          {"id":"u-17"}
//	POST {url}/accounts      {"user_id":"u-17"}
//
// otp, address and client are optional. The first two return 200 with a user, the third with
// accounts:
//
//	{"id":"u-17","username":"ana","version":3,"scopes":["marketdata:read"],
//	 "entitlements":[{"market":"*","trades":true,"quotes":true,"depth":10}],"limits":{"connections":4}}
//	{"accounts":[{"account_id":"a-1","number":"100001","name":"Ana","type":"cash","status":"active","currency":"ARS",
//	 "currencies":["ARS"],"roles":["owner"],"permissions":["read"],"is_default":true,"created_at":"2021-03-02T00:00:00Z"}]}
//
// id, username and version are required. version must increase with each change of the password. If
// it is always 0, a change of the password does not end earlier logins.
//
// Refusals have their reason in the body, {"reason":"..."}:
//
//	401 invalid_credentials  unknown user, wrong password or one-time password, or disabled, which 423 says too;
//	                         400 and 422 to a login are taken for it, whatever is in them
//	403 mfa_required         the password is right, a one-time password is needed too
//	404 not_found            no user with this id
//	423 disabled             the user may not log in
//
// Everything else is an outage: no answer in time, another status, or a refusal without its reason
// (proxies send their own 401 and 404). So is a body above 64 KiB or of another type than
// application/json or with another structure than above.
//
// # Authentication of requests
//
// A request is signed with a shared secret, or uses a client certificate, or both. The header
// X-Rueda-Signature is v1= and the HMAC-SHA256, in hexadecimal, of these lines, separated by line
// feeds:
//
//	v1
//	POST
//	/login/authenticate                     the path, as in the request
//	1795292400                              X-Rueda-Timestamp, seconds of Unix time
//	9f86d081884c7d659a2feaa0c55ad015        X-Rueda-Nonce, 32 hexadecimal digits, never twice
//	(the SHA-256 of the body, in hexadecimal)
//
// A service refuses a wrong signature, a time that is more than a minute off, and a nonce that it
// has seen within that minute, with any other response than those above. Verify implements this.
//
// Requests use https; http is for loopback addresses only. Redirects are not followed, and proxies
// of the environment are not used.
//
// # Concurrency
//
// Users is safe for concurrent use and reuses connections. Wrap it with package guard.
package httpusers
