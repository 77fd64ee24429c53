// Package password checks passwords against stored hashes, and makes hashes. User bases that keep hashes
// share it: broker/local in tables of its own, and sources that read a table of the operator's.
//
// # What is stored
//
// New hashes are argon2id in PHC form, of the cost of OWASP's first choice: 19 MiB and two passes, 22 ms on the machine
// it was chosen on. With a pepper they are made of HMAC-SHA-256(pepper, password) instead of the password, and
// name the pepper, not its value, as keyid: a copy of the table alone is then of no use to who guesses.
//
// These are checked too, so that a table can be taken over with its passwords, and replaced at the next right login:
//
//	$argon2id$v=19$m=65536,t=3,p=4$salt$sum          argon2id of another cost; also argon2$argon2id$... of Django
//	$2b$12$...                                       bcrypt: $2a$, $2b$, $2y$; also bcrypt$$2b$12$... of Django
//	bcrypt_sha256$$2b$12$...                         of Django
//	$scrypt$ln=16,r=8,p=1$salt$sum                   scrypt in PHC form
//	scrypt$16384$salt$8$5$sum                        of Django: N, salt, r, p
//	scrypt:32768:8:1$salt$hex                        of Werkzeug: N, r, p
//	$pbkdf2-sha256$i=600000$salt$sum                 PBKDF2 in PHC form, with or without i=; also -sha512
//	pbkdf2_sha256$870000$salt$sum                    of Django; also pbkdf2_sha512
//	pbkdf2:sha256:600000$salt$hex                    of Werkzeug; also sha512
//
// Plain passwords and fast hashes (MD5, SHA-1, crypt) are not taken, nor PBKDF2 of fewer than 1,000 rounds or scrypt below
// N = 1,024, which are little better.
//
// bcrypt looks at the first 72 bytes of a password, and many programs cut the rest off silently. Here a longer one is
// wrong: two passwords of which one is right must not both be. Its owner needs a new one.
//
// # What a row may cost
//
// Ceilings keep a poisoned row from taking the gateway's memory or a core for seconds: 128 MiB, and about one second of
// a core. A row beyond them is no hash. The answer then takes as long as any other and is no.
//
// # Time
//
// An unknown user, a wrong password and a damaged row all compute one hash of the default cost. Rows of another scheme or
// cost take that scheme's time until they are replaced, so that a patient watcher can tell who has not logged in since
// the table was taken over; no more than that.
//
// # Concurrency
//
// A Checker is safe for concurrent use and starts no goroutine. So many hashes as there are slots, one fewer than cores,
// are computed at once. A bounded queue waits for a bounded time, and what does not fit is broker.ErrUnavailable at once:
// a flood of logins costs the flooders their logins, and leaves memory flat and a core to the market.
//
// The queue is fair to networks: addresses count by /24 and /48. Turns go round among the networks that wait, and no network
// has more than a quarter of the places. Callers that tell no address count as one network, which may fill the queue.
package password
