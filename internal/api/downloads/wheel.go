package downloads

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strings"
	"time"
)

// project is the name of the Python client.
const project = "rueda"

// metadata is the beginning of the file METADATA, with %s for the version. A test compares it with
// pyproject.toml, because the gateway cannot decode TOML.
const metadata = `Metadata-Version: 2.1
Name: rueda
Version: %s
Summary: A client of rueda gateways for bots: asyncio, exact decimals, no lost trades
Classifier: Framework :: AsyncIO
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Typing :: Typed
Requires-Python: >=3.11
Description-Content-Type: text/markdown
License-File: LICENSE
Requires-Dist: websockets>=10.4
Provides-Extra: pandas
Requires-Dist: pandas>=1.5; extra == "pandas"

`

// versionLine matches the version in rueda/_version.py.
var versionLine = regexp.MustCompile(`(?m)^__version__ = "([^"]+)"$`)

// wheel builds the wheel of the Python client, in version 1.0 of the binary distribution format
// (PEP 427) with metadata version 2.1.
func wheel(files fs.FS) (File, error) {
	source, err := fs.ReadFile(files, project+"/_version.py")
	if err != nil {
		return File{}, err
	}
	found := versionLine.FindSubmatch(source)
	if found == nil {
		return File{}, errors.New("_version.py has no version")
	}
	version := string(found[1])
	readme, err := fs.ReadFile(files, "README.md")
	if err != nil {
		return File{}, err
	}
	list, err := read(files, "", project+"/*.py", project+"/py.typed")
	if err != nil {
		return File{}, err
	}
	info := project + "-" + version + ".dist-info/"
	license, err := read(files, info, "LICENSE")
	if err != nil {
		return File{}, err
	}
	list = append(list, license...)
	list = append(list,
		entry{info + "METADATA", append(fmt.Appendf(nil, metadata, version), readme...)},
		entry{info + "WHEEL", []byte("Wheel-Version: 1.0\nGenerator: rueda " + version + "\nRoot-Is-Purelib: true\nTag: py3-none-any\n")})
	list = append(list, entry{info + "RECORD", record(list, info)})
	data, err := zipped(list)
	return File{For: Pip, Name: project + "-" + version + "-py3-none-any.whl", Media: "application/zip", Data: data}, err
}

// record returns the file RECORD, which lists the hash and size of each other file. info is the
// folder of RECORD.
func record(list []entry, info string) []byte {
	var b strings.Builder
	for _, e := range list {
		sum := sha256.Sum256(e.data)
		fmt.Fprintf(&b, "%s,sha256=%s,%d\n", e.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(e.data))
	}
	b.WriteString(info + "RECORD,,\n")
	return []byte(b.String())
}

// zipped returns the entries as a zip file. All have the earliest time that the format allows.
func zipped(list []entry) ([]byte, error) {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	for _, e := range list {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)}
		h.SetMode(0o644)
		w, err := z.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return out.Bytes(), err
}
