// Command again runs make test several times in a row, from a warm cache, beside make test-million at the lowest priority, which takes
// what processor time there is. It ends with the first run that fails, and writes how long each took that has passed into a file.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/lockstep-dev/lockstep/test/evidence"
)

// outcome is what is written.
type outcome struct {
	evidence.Tested
	// Load is what ran beside.
	Load string `json:"load"`
	// Seconds that each run took. All have passed.
	Seconds []int `json:"seconds"`
}

// load is a script that does not end: where all of a million histories have passed, the first of them are played again.
const load = "make test-million && while make test-sim; do :; done"

func main() {
	runs := flag.Int("runs", 5, "how often make test is run")
	file := flag.String("json", filepath.Join("test", "again", "again.json"), "the file to write")
	flag.Parse()
	if err := run(*runs, *file); err != nil {
		fmt.Fprintln(os.Stderr, "again:", err)
		os.Exit(1)
	}
}

func run(runs int, file string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	o := outcome{Load: load}
	if o.Tested, err = evidence.Of(ctx, "make test-again", file); err != nil {
		return err
	}
	beside, err := startLoad(load, strings.TrimSuffix(file, ".json")+".out")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, beside.end()) }()
	for i := range runs {
		began := time.Now()
		test := exec.CommandContext(ctx, "make", "test")
		test.Stdout, test.Stderr = os.Stdout, os.Stderr
		test.Env = append(test.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -count=1") // no run takes the results of another
		if err := test.Run(); err != nil {
			return fmt.Errorf("run %d of %d: %w", i+1, runs, err)
		}
		took := int(time.Since(began).Seconds())
		fmt.Printf("again: run %d of %d has passed in %d s\n", i+1, runs, took)
		o.Seconds = append(o.Seconds, took)
		if err := evidence.Write(file, o); err != nil {
			return err
		}
	}
	return nil
}

// process is a load that runs.
type process struct {
	*exec.Cmd
	file string
	// over is closed when it has ended, with err.
	over chan struct{}
	err  error
}

// startLoad starts a script, which logs into a file.
func startLoad(script, file string) (*process, error) {
	log, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &process{Cmd: exec.Command("nice", "-n", "19", "sh", "-c", script), file: file, over: make(chan struct{})}
	p.Stdout, p.Stderr, p.SysProcAttr = log, log, &syscall.SysProcAttr{Setpgid: true}
	if err := p.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.over)
		p.err = p.Wait()
	}()
	return p, nil
}

// end ends a load with all that it has started, and returns an error where it had ended before.
func (p *process) end() error {
	select {
	case <-p.over:
		return errors.Join(fmt.Errorf("the load has ended before the tests: see %s", p.file), p.err)
	default:
	}
	err := syscall.Kill(-p.Process.Pid, syscall.SIGKILL)
	<-p.over
	return err
}
