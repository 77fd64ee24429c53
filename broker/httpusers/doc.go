// Package httpusers is a user base that is a web service of the broker's own: three POST requests with JSON bodies.
//
//	POST {url}/authenticate  {"username":"ana","password":"...","otp":"123456","address":"192.0.2.7","client":"..."}
//	POST {url}/user          {"id":"u-17"}
//	POST {url}/accounts      {"user_id":"u-17"}
//
// otp, address and client are left out where there is none. The first two answer 200 with a user, the third
// with accounts:
//
//	{"id":"u-17","username":"ana","version":3,"scopes":["marketdata:read"],
//	 "entitlements":[{"market":"*","trades":true,"quotes":true,"depth":10}],"limits":{"connections":4}}
//	{"accounts":[{"account_id":"a-1","number":"100001","name":"Ana","type":"cash","status":"active","currency":"ARS",
//	 "currencies":["ARS"],"roles":["owner"],"permissions":["read"],"is_default":true,"created_at":"2021-03-02T00:00:00Z"}]}
//
// id, username and version are needed. version must rise with each change of the password; at 0 for ever, a change
// of the password does not end the logins of before.
//
// Refusals carry their reason in the body, {"reason":"..."}:
//
//	401 invalid_credentials  unknown user, wrong password or one-time password, or disabled, which 423 says too;
//	                         400 and 422 to a login are taken for it, whatever is in them
//	403 mfa_required         the password is right, a one-time password is needed too
//	404 not_found            no user with this id
//	423 disabled             the user may not log in
//
// Everything else is an outage: no answer in time, another status, a refusal without its reason (proxies answer 401
// and 404 of their own), a body over 64 KiB, of another type than application/json, or not exactly as above.
//
// # Who asks
//
// A request is signed with a secret that both know, or comes from a client certificate, or both. The signature is the header
// X-Rueda-Signature: v1= and the HMAC-SHA256, in hexadecimal, of these lines, with a line feed between two:
//
//	v1
//	POST
//	/login/authenticate                     the path, as in the request
//	1795292400                              X-Rueda-Timestamp, seconds of Unix time
//	9f86d081884c7d659a2feaa0c55ad015        X-Rueda-Nonce, 32 hexadecimal digits, never twice
//	(the SHA-256 of the body, in hexadecimal)
//
// A service refuses a signature that is wrong, a time more than a minute off, and a nonce that it saw within that
// minute; with any answer but the refusals above. Verify is how.
//
// Requests go by https; http is for loopback addresses alone. Redirects are not followed, and no proxy of
// the environment is used.
//
// # Concurrency
//
// Users is safe for concurrent use; connections are kept and shared. Package guard goes before it.
package httpusers
