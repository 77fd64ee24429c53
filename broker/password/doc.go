// Package password hashes passwords and checks them against stored hashes. It serves all user bases
// that store hashes: broker/local and tables of the operator.
//
// # Formats
//
// New hashes are argon2id in PHC form with the first choice of OWASP: 19 MiB and two passes, 22 ms
// on the machine of the measurement. With a pepper they hash HMAC-SHA-256(pepper, password) and
// contain an id of the pepper as keyid, not its value: a copy of the table alone does not allow
// guesses.
//
// These formats are also checked, so that tables can be imported with their passwords. Hashes are
// replaced at the next login:
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
// Plain passwords and fast hashes (MD5, SHA-1, crypt) are refused, and so are PBKDF2 with fewer
// than 1,000 rounds and scrypt below N = 1,024.
//
// bcrypt uses the first 72 bytes of a password, and many programs ignore the rest. Here a longer
// password is wrong, because otherwise two passwords would match. Its owner needs a new one.
//
// # Limits of cost
//
// Limits keep a malicious row from using the gateway's memory or a core for seconds: 128 MiB and
// about one second of a core. A row above them counts as invalid: the answer takes the usual time
// and is negative.
//
// # Timing
//
// An unknown user, a wrong password and an invalid row all compute one hash of the default cost.
// Rows of other schemes and costs take their own time until they are replaced. This reveals which
// users have not logged in since the import, but nothing else.
//
// # Concurrency
//
// A Checker is safe for concurrent use and starts no goroutine. It computes as many hashes at once
// as it has slots, by default one less than cores. A bounded queue waits for a bounded time; above
// that, calls fail immediately with broker.ErrUnavailable. A flood of logins delays only logins,
// with constant memory and one core left for the market.
//
// The queue is fair to client networks (/24 and /48): slots go round among the networks that wait,
// and no network may use more than a quarter of the queue. Callers without an address count as one
// network, which may fill the queue.
package password
