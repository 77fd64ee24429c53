package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
)

// file is a file of an archive.
type file struct {
	name string // slash-separated
	mode fs.FileMode
	data []byte
}

// archive returns the files below a folder as .zip for Windows and as .tar.gz for other systems, and
// the name of the archive. Each file has the time of the commit and no owner.
func (r *release) archive(folder, goos string, files []file) (data []byte, name string, err error) {
	if goos == "windows" {
		data, err = r.zip(folder, files)
		return data, folder + ".zip", err
	}
	data, err = r.tar(folder, files)
	return data, folder + ".tar.gz", err
}

func (r *release) zip(folder string, files []file) ([]byte, error) {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, f := range files {
		h := &zip.FileHeader{Name: folder + "/" + f.name, Method: zip.Deflate, Modified: r.time}
		h.SetMode(f.mode)
		w, err := z.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return out.Bytes(), err
}

func (r *release) tar(folder string, files []file) ([]byte, error) {
	var out bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	t := tar.NewWriter(compressed)
	for _, f := range files {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: folder + "/" + f.name, Size: int64(len(f.data)),
			Mode: int64(f.mode.Perm()), ModTime: r.time, Format: tar.FormatPAX,
		}
		if err := t.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := t.Write(f.data); err != nil {
			return nil, err
		}
	}
	err = errors.Join(t.Close(), compressed.Close())
	return out.Bytes(), err
}
