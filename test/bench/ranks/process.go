// Package ranks runs the supervisors of a simulated gang in a process of their own. Each has the real client of the stream and the real
// machine of epochs. Its program is none: it starts and stops at once.
package ranks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"time"
)

// variable tells a process that it is to run supervisors.
const variable = "LOCKSTEP_BENCH_RANKS"

// collectorPercent is how much of the memory in use may be added before the garbage collector runs.
const collectorPercent = 1000

// Gang is what the supervisors are told on their standard input before anything else.
type Gang struct {
	// Addresses of the manager, host:port, which ranks take in turn: of one there are ports for 28,000 connections. ServerName is the name in its certificate.
	Addresses  []string
	ServerName string
	Ranks      []Rank
	// AtOnce is how many ranks connect at a time; 0 for all.
	AtOnce int
	// Sharing is how many ranks share a connection, where this machine does not allow one for each; 0 or 1 for the real client, which shares none.
	Sharing int
	// SayEvery is how often each program says which step it makes; 0 for never.
	SayEvery time.Duration
}

// Rank is one pod: what its supervisor would find in its environment and in its volumes.
type Rank struct {
	Epoch             int64
	CAFile, TokenFile string
	// Standby is true of a spare.
	Standby bool
}

// order is what happens to the supervisors next, by their numbers. One without any of these waits until all streams have ended and are up again.
type order struct {
	// Fail are those whose program ends with an error, and Kill those that end without a word.
	Fail, Kill []int
}

// Restart is one restart of all programs, by the clock of this machine.
type Restart struct {
	// Epoch that the gang has reached.
	Epoch int64
	// Failed is when the first program ended, Waiting when the last rank reported that it waits, and Running when the last program started.
	Failed, Waiting, Running time.Time
}

// Process is the supervisors, seen from the program that started them.
type Process struct {
	command *exec.Cmd
	orders  *json.Encoder
	answers *json.Decoder
	input   io.Closer
}

// Start starts the process, and returns once every program runs and every stream is up.
func Start(ctx context.Context, gang *Gang, limit time.Duration) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, self)
	command.Env, command.Stderr = append(os.Environ(), variable+"=1"), os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start the supervisors: %w", err)
	}
	p := &Process{command: command, orders: json.NewEncoder(input), answers: json.NewDecoder(output), input: input}
	if _, err := p.ask(gang, limit, nothing); err != nil {
		return nil, errors.Join(fmt.Errorf("connect the supervisors: %w", err), p.Stop())
	}
	return p, nil
}

// Fail has the program of a rank end with an error, and returns once all programs run again.
func (p *Process) Fail(rank int, limit time.Duration) (Restart, error) {
	r, err := p.ask(order{Fail: []int{rank}}, limit, nothing)
	if err != nil {
		return r, fmt.Errorf("restart after the program of rank %d has failed: %w", rank, err)
	}
	return r, nil
}

// Lose kills supervisors, and returns once the programs of all ranks run again, some of them in spares. Meanwhile it does something.
func (p *Process) Lose(ranks []int, limit time.Duration, meanwhile func() error) (Restart, error) {
	r, err := p.ask(order{Kill: ranks}, limit, meanwhile)
	if err != nil {
		return r, fmt.Errorf("restart after the loss of %v: %w", ranks, err)
	}
	return r, nil
}

// Reconnect does something that ends all streams, and returns once they are up again: Waiting is when the first one is, and Running when the last one is.
func (p *Process) Reconnect(limit time.Duration, meanwhile func() error) (Restart, error) {
	r, err := p.ask(order{}, limit, meanwhile)
	if err != nil {
		return r, fmt.Errorf("connect again: %w", err)
	}
	return r, nil
}

func nothing() error { return nil }

// ask sends an order, does something meanwhile, and waits for the answer. A process that gives none within the limit is killed.
func (p *Process) ask(order any, limit time.Duration, meanwhile func() error) (answer Restart, err error) {
	if err := p.orders.Encode(order); err != nil {
		return answer, err
	}
	late := time.AfterFunc(limit, func() { _ = p.command.Process.Kill() })
	err = errors.Join(meanwhile(), p.answers.Decode(&answer))
	if !late.Stop() {
		return answer, fmt.Errorf("not within %s", limit)
	}
	return answer, err
}

// PID is the process's id.
func (p *Process) PID() int { return p.command.Process.Pid }

// Stop ends the process. How it ended does not matter.
func (p *Process) Stop() error {
	err := p.input.Close()
	_ = p.command.Wait()
	return err
}

// Main runs supervisors where this process was started for that, and does not return then. A program that calls Start calls it first.
func Main() {
	if os.Getenv(variable) == "" {
		return
	}
	// In a cluster each supervisor is a process of its own, on a machine of its own. In one process the collector looks at all of them, on the manager's cores.
	debug.SetGCPercent(collectorPercent)
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "supervisors:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve starts the gang that the input begins with. Then it answers each order with the restart that it leads to, until the input ends.
func serve(in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	orders, answers := json.NewDecoder(in), json.NewEncoder(out)
	var described Gang
	if err := orders.Decode(&described); err != nil {
		return err
	}
	next := make(chan order)
	go func() {
		defer cancel() // whoever started this process is gone
		for o := (order{}); orders.Decode(&o) == nil; o = (order{}) {
			next <- o
		}
	}()
	g := start(ctx, &described)
	if described.SayEvery > 0 {
		go g.train(ctx, described.SayEvery)
	}
	if err := answers.Encode(Restart{}); err != nil {
		return err
	}
	for {
		select {
		case o := <-next:
			if err := answers.Encode(g.obey(ctx, o)); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}
