// Command release builds the files of a release from a clean checkout: static binaries in archives,
// their checksums, and a software bill of materials for each.
//
//	go -C tools/release run . [-tree DIR] [-out DIR] [-platforms linux/amd64,...] [-tag v0.2.0] [-verify]
//
// The files depend on the commit and on the Go version only. With -verify the program builds the
// commit again, in another folder and with an empty build cache, and compares the checksums.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// allPlatforms are the platforms of a release, as GOOS/GOARCH.
const allPlatforms = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	tree := flag.String("tree", "../..", "checkout to build")
	out := flag.String("out", "../../build/release", "folder of the files; its files are replaced")
	platforms := flag.String("platforms", allPlatforms, "platforms to build, with commas")
	tag := flag.String("tag", "", "fail unless the checkout is this release, such as v0.2.0")
	dirty := flag.Bool("dirty", false, "build a checkout with changes that are not committed")
	verify := flag.Bool("verify", false, "build the commit twice and compare")
	flag.Parse()
	r, err := newRelease(ctx, *tree, *out, command.ReadBuild().Version)
	if err != nil {
		return err
	}
	if r.modified && !*dirty {
		return fmt.Errorf("%s has changes that are not committed: commit them, or use -dirty", *tree)
	}
	if *tag != "" {
		if err := r.checkTag(*tag); err != nil {
			return err
		}
	}
	r.platforms = strings.Split(*platforms, ",")
	if err := r.build(ctx); err != nil {
		return err
	}
	if *verify {
		return r.verify(ctx)
	}
	return nil
}

// verify builds a clone of the commit with an empty build cache and compares the checksums.
func (r *release) verify(ctx context.Context) (err error) {
	if r.modified {
		return errors.New("only what is committed can be built again")
	}
	folder, err := os.MkdirTemp("", "release-verify-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	again, err := r.clone(ctx, filepath.Join(folder, "a", "longer", "path"), filepath.Join(folder, "out"))
	if err != nil {
		return err
	}
	again.cache = filepath.Join(folder, "cache")
	if err := again.build(ctx); err != nil {
		return err
	}
	first, err := os.ReadFile(filepath.Join(r.out, checksumsFile))
	if err != nil {
		return err
	}
	second, err := os.ReadFile(filepath.Join(again.out, checksumsFile))
	if err != nil {
		return err
	}
	if !bytes.Equal(first, second) {
		return fmt.Errorf("the builds differ:\n%s\n%s", first, second)
	}
	fmt.Println("The second build has the same checksums.")
	return nil
}
