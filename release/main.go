// Command release writes what is published of a tag, or the plugin alone of any commit, and checks what was published: `make release`,
// `make plugin` and `make check-release`.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
)

func main() {
	r := release{root: "."}
	dir := flag.String("dir", "bin/release", "folder to write the folder of the release into")
	alone := flag.Bool("plugin", false, "write the kubectl plugin alone, into the folder itself; the commit needs no tag")
	check := flag.String("check", "", "folder of a release to check against its SHA256SUMS; nothing is written")
	flag.StringVar(&r.helm, "helm", ".cache/tools/helm", "helm, to pack and to render the chart")
	flag.StringVar(&r.url, "url", "", "address of the folder that the release will be downloaded from, for krew's manifest; without it none is written")
	flag.StringVar(&r.registry, "registry", "", "registry and path before the images' names in the manifests, such as registry.example/lockstep")
	flag.StringVar(&r.builder, "builder", "https://lockstep.dev/local", "URI that identifies who builds, for the provenance")
	flag.StringVar(&r.dcgm, "dcgm", "", "folder with DCGM's libdcgm.so.4 to put into the agent's image; without it a node's has to be mounted")
	architectures := flag.String("architectures", "amd64,arm64", "architectures of the manager and lockstep-run")
	agents := flag.String("agent-architectures", runtime.GOARCH, "architectures of the health agent; another than this machine's needs a cross compiler")
	flag.Parse()
	r.architectures, r.agentArchitectures = strings.Split(*architectures, ","), strings.Split(*agents, ",")
	if err := run(r, *dir, *alone, *check); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(r release, dir string, alone bool, check string) error {
	if check != "" {
		n, err := checkSums(check)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %d files are as %s lists them\n", check, n, sumsFile)
		return nil
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if alone {
		if err := r.plugin(ctx, commit{}, dir); err != nil {
			return err
		}
		return writeSums(dir)
	}
	written, err := r.write(ctx, dir)
	if err != nil {
		return err
	}
	fmt.Println(written)
	return nil
}
