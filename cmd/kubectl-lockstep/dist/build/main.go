// Command build packs kubectl-lockstep for every platform: `make plugin`.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/dist"
)

func main() {
	release := dist.Release{Root: ".", Package: "./cmd/kubectl-lockstep"}
	dir := flag.String("dir", "bin/plugin", "folder to write into")
	flag.StringVar(&release.URL, "url", "", "address of the folder that the archives will be downloaded from, for krew's manifest; without it none is written")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	paths, err := release.Write(ctx, *dir, dist.Platforms()...)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	for _, path := range paths {
		fmt.Println(path)
	}
	if release.URL == "" {
		fmt.Println("No manifest for krew was written: -url says where the archives will be downloaded from.")
	}
}
