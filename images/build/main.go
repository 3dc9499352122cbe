// Command build writes Lockstep's images as OCI archives, without a daemon and without a registry: `make archives`.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/lockstep-dev/lockstep/images"
)

// options are the flags; `go run ./images/build -h` documents them.
type options struct {
	dir, ref, builder string
	architectures     string
}

func main() {
	o := options{}
	flag.StringVar(&o.dir, "dir", "bin/images", "folder to write into")
	flag.StringVar(&o.ref, "manager", "lockstep-manager:dev", "reference of the manager's image")
	flag.StringVar(&o.builder, "builder", "https://lockstep.dev/local", "URI that identifies who builds, for the provenance")
	flag.StringVar(&o.architectures, "architectures", "amd64,arm64", "architectures to build for")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	root, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	manager := images.Manager(root)
	manager.Builder = o.builder
	built, err := manager.Write(ctx, o.dir, o.ref, strings.Split(o.architectures, ",")...)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s for %s\n", built.Archive, o.ref, o.architectures)
	for _, path := range built.Statements {
		fmt.Println(path)
	}
	return nil
}
