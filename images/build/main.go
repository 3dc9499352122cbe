// Command build writes Lockstep's images as OCI archives, without a daemon and without a registry: `make archives`.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/lockstep-dev/lockstep/images"
	"github.com/lockstep-dev/lockstep/images/debian"
)

// options are the flags; `go run ./images/build -h` documents them.
type options struct {
	dir, builder              string
	manager, supervisor       string
	architectures             string
	agent, agentArchitectures string
	packages                  debian.Store
	dcgm                      string
}

func main() {
	o := options{}
	flag.StringVar(&o.dir, "dir", "bin/images", "folder to write into")
	flag.StringVar(&o.builder, "builder", "https://lockstep.dev/local", "URI that identifies who builds, for the provenance")
	flag.StringVar(&o.manager, "manager", "", "reference of the manager's image, such as lockstep-manager:dev; without it the image is not built")
	flag.StringVar(&o.supervisor, "supervisor", "", "reference of the image of lockstep-run, such as lockstep-run:dev; without it the image is not built")
	flag.StringVar(&o.architectures, "architectures", "amd64,arm64", "architectures to build the manager and lockstep-run for")
	flag.StringVar(&o.agent, "agent", "", "reference of the health agent's image, such as lockstep-health-agent:dev; without it the image is not built")
	flag.StringVar(&o.agentArchitectures, "agent-architectures", runtime.GOARCH, "architectures to build the health agent for; another than this machine's needs a cross compiler")
	flag.StringVar(&o.packages.Dir, "debs", ".cache/debian", "folder of the packages of Debian in the agent's image; what it lacks is downloaded")
	flag.StringVar(&o.packages.Mirror, "debian-mirror", debian.DefaultMirror, "mirror of Debian to download packages from")
	flag.StringVar(&o.dcgm, "dcgm", "", "folder with DCGM's libdcgm.so.4 to put into the agent's image; without it a node's has to be mounted")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if o.manager == "" && o.supervisor == "" && o.agent == "" {
		return fmt.Errorf("nothing to build: name an image with -manager, -supervisor or -agent")
	}
	root, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	for _, image := range []struct {
		program            images.Program
		ref, architectures string
	}{
		{images.Manager(root), o.manager, o.architectures},
		{images.Supervisor(root), o.supervisor, o.architectures},
		{images.Agent(root, o.packages, o.dcgm), o.agent, o.agentArchitectures},
	} {
		if image.ref == "" {
			continue
		}
		if err := write(ctx, o, image.program, image.ref, image.architectures); err != nil {
			return err
		}
	}
	return nil
}

func write(ctx context.Context, o options, program images.Program, ref, architectures string) error {
	program.Builder = o.builder
	built, err := program.Write(ctx, o.dir, ref, strings.Split(architectures, ",")...)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s for %s\n", built.Archive, ref, architectures)
	for _, path := range built.Statements {
		fmt.Println(path)
	}
	return nil
}
