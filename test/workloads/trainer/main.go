// Trainer is a small data-parallel training program for tests on real kubelets. It trains,
// aborts when a peer is lost, saves and resumes, and its losses have the same bits however
// often it was disturbed. ../README.md is about its flags, its output and its exit codes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes. Of a program that panics Go makes 2 as well.
const (
	exitDone         = 0
	exitAborted      = 1 // a peer was lost, or this rank could not go on
	exitUsage        = 2 // flags are wrong, or ranks differ in them
	exitFenced       = 3 // a higher incarnation of this rank has started
	exitAlone        = 4 // the gang was not complete in time
	exitNoCheckpoint = 5 // -require-checkpoint, and there is none
	exitTerminated   = 128 + int(syscall.SIGTERM)
)

func main() {
	c, err := parse(os.Args[1:], os.Getenv, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(exitDone)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "trainer: %v\n", err)
		os.Exit(exitUsage)
	}
	e := &events{out: os.Stdout, from: fmt.Sprintf("rank=%d inc=%d", c.rank, c.incarnation)}
	r := newRank(c, e)
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	go func() {
		<-terminated
		r.terminate()
	}()
	r.run()
}
