package password

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"
)

var nowhere netip.Addr

// cheap returns a Checker whose own hashes cost little.
func cheap(peppers ...[]byte) *Checker {
	return New(Config{Cost: Cost{Memory: 64, Time: 1}, Peppers: peppers})
}

// TestVectors has published vectors of each scheme: RFC 7914 for scrypt and PBKDF2, the tests of
// the reference implementation for argon2id, crypt_blowfish for bcrypt, and Python's hashlib for
// the forms of Django, Werkzeug and passlib.
func TestVectors(t *testing.T) {
	const python = "contraseña larga"
	std := func(text string) string {
		b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		return base64.StdEncoding.EncodeToString(b)
	}
	c := New(Config{})
	for i, v := range []struct{ scheme, password, stored string }{
		{"argon2id", "password", "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"},
		{"argon2id", "password", "argon2$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"},
		{"bcrypt", "U*U", "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"},
		{"bcrypt", "U*U*", "$2b$05$CCCCCCCCCCCCCCCCCCCCC.VGOzA784oUp/Z0DY336zx7pLYAy0lwK"},
		{"bcrypt", "U*U*U", "$2y$05$XXXXXXXXXXXXXXXXXXXXXOAcXxm9kjPGEMsLznoKqmqw7tc8WCx4a"},
		{"bcrypt", "U*U*U", "bcrypt$$2b$05$XXXXXXXXXXXXXXXXXXXXXOAcXxm9kjPGEMsLznoKqmqw7tc8WCx4a"},
		{"scrypt", "password", "scrypt$1024$NaCl$8$16$" + std("fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b3731622eaf30d92e22a3886ff109279d9830dac727afb94a83ee6d8360cbdfa2cc0640")},
		{"scrypt", "pleaseletmein", "scrypt:16384:8:1$SodiumChloride$7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2d5432955613f0fcf62d49705242a9af9e61e85dc0d651e40dfcf017b45575887"},
		{"scrypt", python, "$scrypt$ln=10,r=8,p=1$c2FsdHlzYWx0eXNhbHQhIQ$5RmVf4ivHr+oPYPMThzzR+5+gZ9l6s3MC9BnxEYQKGU"},
		{"scrypt", python, "scrypt$1024$saltysalt$8$5$wcHud0E8O3sAHh3y8SbQRxjDTK8OR9ZW/YCPs5Q2n6ibC1QVfXSU2ZUzstk2OTcCHwsI7MuS8m67ASNe4GW1wA=="},
		{"scrypt", python, "scrypt:1024:8:1$saltysalt$de3c9910e5493960e603d35b416d85d4efdc5f8b8ef08dbb3e68b531c4548d4dcda94a465bba4a4b8e290667f4be88f69d09df0a232a0ae993aa0421dff42c36"},
		{"pbkdf2-sha256", "Password", "pbkdf2:sha256:80000$NaCl$4ddcd8f60b98be21830cee5ef22701f9641a4418d04c0414aeff08876b34ab56a1d425a1225833549adb841b51c9b3176a272bdebba1d078478f62b397f33c8d"},
		{"pbkdf2-sha256", python, "pbkdf2_sha256$1200$saltysalt$DlItU6TjEDQ87zDJ71AaN6bqWw/QlhBUri17ySHA9xw="},
		{"pbkdf2-sha512", python, "pbkdf2_sha512$1200$saltysalt$1uQB9rDLo12EJpF9mh5kcAKgfaLyuOF3LKcewkR1dXKWd+zubDu5o3YfaEfO/U+bYkjNiJIp+RPYqxbYP3YHUg=="},
		{"pbkdf2-sha256", python, "$pbkdf2-sha256$i=1200$c2FsdHlzYWx0eXNhbHQhIQ$UBYDb27mx+g2S7Y6tRtHVd780vqIvXcK2s3K8UvwGYk"},
		{"pbkdf2-sha512", python, "$pbkdf2-sha512$1200$....MTIzNDU$u/RROFtHuZ2Ez3aWRsop9NwDs/HPQnxLpl2TY8gCQiCDVfIbmWn7i1ZUJqXAawDbtFdZhZszlv8l45Hpexzwdw"},
		{"pbkdf2-sha512", python, "pbkdf2:sha512:1200$saltysalt$d6e401f6b0cba35d8426917d9a1e647002a07da2f2b8e1772ca71ec2447575729677ecee6c3bb9a3761f6847cefd4f9b6248cd889229f913d8ab16d83f760752"},
	} {
		if scheme, err := c.Known(v.stored); scheme != v.scheme || err != nil {
			t.Errorf("%s: known as %q, %v", v.stored, scheme, err)
		}
		if ok, old, err := c.Verify(t.Context(), v.stored, v.password, nowhere); !ok || err != nil || old != (v.scheme != "argon2id") {
			t.Errorf("%s: %v, old %v, %v", v.stored, ok, old, err)
		}
		other := []string{v.password + "x", v.password[1:], strings.ToUpper(v.password) + "\x00"}[i%3]
		if ok, _, err := c.Verify(t.Context(), v.stored, other, nowhere); ok || err != nil {
			t.Errorf("%s: %q is %v, %v", v.stored, other, ok, err)
		}
	}
}

// TestBcryptOfLibrary checks hashes of x/crypto, and Django's SHA-256 before it, which removes the
// limit of 72 bytes.
func TestBcryptOfLibrary(t *testing.T) {
	c := cheap()
	for _, password := range []string{"a", "ñandú con alas", strings.Repeat("x", 72)} {
		stored, err := bcrypt.GenerateFromPassword([]byte(password), 4)
		if err != nil {
			t.Fatal(err)
		}
		if ok, old, err := c.Verify(t.Context(), string(stored), password, nowhere); !ok || !old || err != nil {
			t.Errorf("%q: %v, old %v, %v", password, ok, old, err)
		}
	}
	// hex(SHA-256("abc")), the example of FIPS 180.
	stored, err := bcrypt.GenerateFromPassword([]byte("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"), 4)
	if err != nil {
		t.Fatal(err)
	}
	if ok, _, err := c.Verify(t.Context(), "bcrypt_sha256$"+string(stored), "abc", nowhere); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}

// TestBcryptIsNotCut checks that a password is refused if bcrypt would use only its first 72 bytes.
func TestBcryptIsNotCut(t *testing.T) {
	c := cheap()
	password := strings.Repeat("x", 72)
	stored, err := bcrypt.GenerateFromPassword([]byte(password), 4)
	if err != nil {
		t.Fatal(err)
	}
	if ok, _, err := c.Verify(t.Context(), string(stored), password+"y", nowhere); ok || err != nil {
		t.Errorf("73 bytes: %v, %v", ok, err)
	}
	if got := c.Stats().Hashed; got != 1 {
		t.Errorf("%d hashes: a long password is refused without one, which tells the scheme", got)
	}
}

// TestParseRefuses lists texts that are not hashes, or cost too much. The error must not contain
// them, because some tables have plain passwords.
func TestParseRefuses(t *testing.T) {
	const salt, sum = "c2FsdHNhbHRzYWx0", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	const blow = "CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"
	argon := func(params string) string { return "$argon2id$v=19$" + params + "$" + salt + "$" + sum }
	c := New(Config{})
	for _, bad := range []string{
		"hunter2hunter2", "$", "$$$$$", "5f4dcc3b5aa765d61d8327deb882cf99", "$1$salt$qJH7.N4xYta3aEG/dfqo/0", "$5$salt$x", "{SSHA}AAAA", "plain:secret", "md5$salt$5f4d", "pbkdf2_sha1$1200$saltysalt$AAAA",
		"$argon2i$v=19$m=19456,t=2,p=1$" + salt + "$" + sum,
		"$argon2d$v=19$m=19456,t=2,p=1$" + salt + "$" + sum,
		"$argon2id$v=16$m=19456,t=2,p=1$" + salt + "$" + sum,
		"$argon2id$m=19456,t=2,p=1$" + salt + "$" + sum,
		argon("m=131073,t=2,p=1"), argon("m=4194304,t=2,p=1"), argon("m=4294967295,t=2,p=1"), argon("m=4294967296,t=2,p=1"),
		argon("m=1024,t=1025,p=1"), argon("m=8,t=4294967295,p=1"), argon("m=131072,t=9,p=1"), argon("m=19456,t=2,p=9"), argon("m=19456,t=2,p=257"),
		argon("m=19456,t=0,p=1"), argon("m=19456,t=2,p=0"), argon("m=0,t=2,p=1"), argon("m=-1,t=2,p=1"), argon("m=+19456,t=2,p=1"), argon("m=019456,t=2,p=1"),
		argon("m=19456,t=2,p=1,x=1"), argon("m=19456,t=2"), argon("t=2,m=19456,p=1"), argon("m=19456,t=2,p=1,keyid=AAAAAAAAAAAA"), argon("m=19456,t=2,p=1,keyid="),
		"$argon2id$v=19$m=19456,t=2,p=1$" + salt + "$",
		"$argon2id$v=19$m=19456,t=2,p=1$$" + sum,
		"$argon2id$v=19$m=19456,t=2,p=1$" + salt + "=$" + sum,
		"$argon2id$v=19$m=19456,t=2,p=1$" + salt + "\n$" + sum,
		"$argon2id$v=19$m=19456,t=2,p=1$" + salt + "$" + strings.Repeat("A", 200),
		argon("m=19456,t=2,p=1") + strings.Repeat("A", 1000),
		"$2$05$" + blow, "$2x$05$" + blow, "$2b$05$" + blow + "a", "$2b$05$" + blow[:52], "$2b$03$" + blow, "$2b$15$" + blow, "$2b$31$" + blow, "$2b$xx$" + blow, "$2b$05." + blow,
		"$2b$05$" + blow[:52] + "!", "$2b$05", "bcrypt_sha256$", "bcrypt_sha256$$2b$15$" + blow, "bcrypt$", "$2",
		"$scrypt$ln=18,r=8,p=1$" + salt + "$" + sum, "$scrypt$ln=64,r=8,p=1$" + salt + "$" + sum, "$scrypt$ln=9,r=8,p=1$" + salt + "$" + sum, "$scrypt$ln=17,r=8,p=3$" + salt + "$" + sum,
		"$scrypt$ln=14,r=8,p=17$" + salt + "$" + sum, "$scrypt$ln=30,r=4294967295,p=1$" + salt + "$" + sum, "$scrypt$ln=10,r=0,p=1$" + salt + "$" + sum, "$scrypt$ln=10,r=8$" + salt + "$" + sum,
		"scrypt$1000$saltysalt$8$1$" + sum, "scrypt$4294967295$saltysalt$8$1$" + sum, "scrypt$1024$salt$8$1$AAAA", "scrypt:1024:8:1$saltysalt$zz", "scrypt:1024:8$saltysalt$00", "scrypt$", "scrypt:",
		"pbkdf2_sha256$999$saltysalt$" + sum, "pbkdf2_sha256$4194305$saltysalt$" + sum, "pbkdf2_sha256$4294967295$saltysalt$" + sum, "pbkdf2_sha256$1000$abc$" + sum,
		"pbkdf2:sha256:3000000$saltysalt$" + strings.Repeat("00", 64), "$pbkdf2-sha1$i=1000$" + salt + "$" + sum, "$pbkdf2-md5$i=1000$" + salt + "$" + sum, "$pbkdf2-sha256$i=x$" + salt + "$" + sum, "pbkdf2:sha256$x", "pbkdf2_",
	} {
		_, err := c.Known(bad)
		if !errors.Is(err, ErrHash) {
			t.Errorf("%q: %v", bad, err)
			continue
		}
		if text := err.Error(); strings.Contains(text, "hunter2") || strings.Contains(text, salt) || strings.Contains(text, sum) || strings.Contains(text, blow) {
			t.Errorf("the error shows what is stored: %s", text)
		}
	}
}

// FuzzParse looks for texts that panic, or are accepted although they cost too much.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
		"$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", "$scrypt$ln=10,r=8,p=1$c2FsdHNhbHRzYWx0$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
		"scrypt:1024:8:1$saltysalt$00000000000000000000000000000000", "pbkdf2_sha256$1200$saltysalt$DlItU6TjEDQ87zDJ71AaN6bqWw/QlhBUri17ySHA9xw=",
		"$pbkdf2-sha512$1200$....MTIzNDU$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "pbkdf2:sha512:1200$saltysalt$00",
	} {
		f.Add(seed)
	}
	c := New(Config{})
	f.Fuzz(func(t *testing.T, text string) {
		h, err := c.Known(text)
		if (h == "") != (err != nil) {
			t.Errorf("%q: %q, %v", text, h, err)
		}
		if p, err := c.parse(text); err == nil && (p.memory > maxMemory || p.work > 4<<30 || len(p.sum) > maxSum) {
			t.Errorf("%q takes %d bytes, works through %d", text, p.memory, p.work)
		}
	})
}
