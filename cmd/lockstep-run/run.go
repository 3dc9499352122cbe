package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/lockstep-dev/lockstep/supervisor"
)

// environment begins the names of the variables that give flags: LOCKSTEP_RUN_MANAGER_ADDRESS is --manager-address.
const environment = "LOCKSTEP_RUN_"

// run runs the program until it ends for good.
func run(args []string) int {
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return misused(err)
	}
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, forwarded()...)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // a log that nobody reads ends no program
	code, err := supervisor.Run(*o, signals)
	if err != nil {
		return failed(err)
	}
	return code
}

// forwarded are the signals that a process can catch, less those that the kernel and Go's runtime send for their own purposes.
func forwarded() []os.Signal {
	own := map[syscall.Signal]bool{
		syscall.SIGKILL: true, syscall.SIGSTOP: true, syscall.SIGCHLD: true, syscall.SIGURG: true, syscall.SIGPIPE: true,
		syscall.SIGSEGV: true, syscall.SIGBUS: true, syscall.SIGFPE: true, syscall.SIGILL: true, syscall.SIGTRAP: true, syscall.SIGSYS: true,
		syscall.SIGPROF: true,
	}
	const last = 64 // of the real-time signals
	var out []os.Signal
	for s := syscall.Signal(1); s <= last; s++ {
		if !own[s] {
			out = append(out, s)
		}
	}
	return out
}

// parse reads the flags of run. A flag goes before its variable.
func parse(args []string) (*supervisor.Options, error) {
	output := supervisor.NewOutput(os.Stderr)
	o := &supervisor.Options{Environ: os.Environ(), Output: output, Log: slog.New(slog.NewTextHandler(output, nil)).With("from", "lockstep-run")}
	flags := bind(o)
	if err := fromEnvironment(flags); err != nil {
		return nil, err
	}
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	o.Command = flags.Args()
	return o, complete(o)
}

func bind(o *supervisor.Options) *flag.FlagSet {
	flags := flag.NewFlagSet("lockstep-run run", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "Usage: lockstep-run run [flags] -- COMMAND [ARGS...]\n\n"+
			"Each flag may also be given by a variable: LOCKSTEP_RUN_MANAGER_ADDRESS for --manager-address. --epoch is LOCKSTEP_EPOCH, too.")
		flags.PrintDefaults()
	}
	flags.Int64Var(&o.Epoch, "epoch", 1, "epoch of the gang that the pod was made in; without a flag or LOCKSTEP_RUN_EPOCH it is LOCKSTEP_EPOCH")
	flags.StringVar(&o.Standby, "standby", "false", "spare or rank: start the program only once the manager gives the pod a rank; a spare runs --warm-up before")
	flags.BoolVar(&o.Expand, "expand", false, "expand $(NAME) in the command by the variables that the program has when it starts, as Kubernetes does by those of the container")
	flags.Func("warm-up", "command that a spare runs before it waits for a rank: a JSON list of its program and arguments", func(text string) error { return json.Unmarshal([]byte(text), &o.WarmUp) })
	flags.DurationVar(&o.WarmUpTimeout, "warm-up-timeout", 10*time.Minute, "how long the command of --warm-up may take before it is killed")
	flags.StringVar(&o.EpochFile, "epoch-file", "", "file that keeps the highest epoch seen, in an emptyDir of this container, and beside it manager-ca.crt, what the manager sends of its CA (required)")
	flags.StringVar(&o.Stream.Address, "manager-address", "", "host:port where the leading manager takes streams (required)")
	flags.StringVar(&o.Stream.ServerName, "server-name", "", "name in the manager's certificate; default: the host of --manager-address")
	flags.StringVar(&o.Stream.CAFile, "ca-file", "", "certificates, in PEM, that the manager's is checked with until it sends newer ones; read at each attempt to connect (required)")
	flags.StringVar(&o.Stream.TokenFile, "token-file", "", "token of the pod's service account for the manager; read again when it changes (required)")
	flags.DurationVar(&o.ManagerTimeout, "manager-timeout", time.Minute, "how long a program that has failed waits for a manager before the container ends with its code")
	flags.DurationVar(&o.Process.StopTimeout, "stop-timeout", 10*time.Second, "time between SIGTERM and SIGKILL when the program is stopped for a later epoch")
	flags.DurationVar(&o.Process.GPUMemoryTimeout, "gpu-memory-timeout", 50*time.Second, "how long to wait for the GPUs' memory to be free, below 512 MiB by nvidia-smi, before the next start; 0 for no wait")
	flags.StringVar(&o.Process.SharedMemory, "shared-memory", "/dev/shm", "folder where files that the program made, and that nobody has open or mapped, are removed before the next start; empty for none")
	flags.StringVar(&o.CheckpointFile, "checkpoint-file", "", "file or folder that changes with each checkpoint of the program; empty where progress is not watched")
	flags.StringVar(&o.CheckpointTiers, "checkpoint-tiers", "", "folders of checkpoints, the fastest first: a JSON list of objects with path, scope (Pod, Node or Shared) and format (Named, Megatron or DCP)")
	flags.StringVar(&o.LogPatterns, "log-patterns", "", "lines of the program that say how far it is: a JSON object of preset (HuggingFace, Megatron or NeMo), or of the regular expressions trainingStep, checkpointSave and checkpointDone")
	flags.BoolVar(&o.PythonStacks, "python-stacks", true, "have Python programs say where they are on signals 50 and 51, by a sitecustomize in PYTHONPATH, for lockstep-run stacks")
	flags.StringVar(&o.TerminationLog, "termination-log", "/dev/termination-log", "terminationMessagePath of the container")
	return flags
}

// fromEnvironment sets flags by their variables.
func fromEnvironment(flags *flag.FlagSet) (err error) {
	set := func(name, variable string) {
		if value, ok := os.LookupEnv(variable); ok && err == nil {
			if bad := flags.Set(name, value); bad != nil {
				err = fmt.Errorf("%s=%q: %w", variable, value, bad)
			}
		}
	}
	if os.Getenv("LOCKSTEP_EPOCH") != "" { // a pod without the annotation that it comes from has it empty
		set("epoch", "LOCKSTEP_EPOCH")
	}
	flags.VisitAll(func(f *flag.Flag) { set(f.Name, environment+strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))) })
	return err
}

// complete fills in what follows from other flags, and says what is missing.
func complete(o *supervisor.Options) error {
	for _, required := range []struct{ flag, value string }{
		{"manager-address", o.Stream.Address}, {"ca-file", o.Stream.CAFile}, {"token-file", o.Stream.TokenFile}, {"epoch-file", o.EpochFile},
	} {
		if required.value == "" {
			return fmt.Errorf("--%s is missing", required.flag)
		}
	}
	host, _, err := net.SplitHostPort(o.Stream.Address)
	if err != nil || host == "" {
		return fmt.Errorf("--manager-address: %q is not host:port", o.Stream.Address)
	}
	if o.Stream.ServerName == "" {
		o.Stream.ServerName = host
	}
	switch {
	case len(o.Command) == 0 || o.Command[0] == "":
		return errors.New("no program: give its command after --")
	case o.Epoch < 1:
		return fmt.Errorf("--epoch: %d is no epoch: the first is 1", o.Epoch)
	case !slices.Contains([]string{"", "false", "spare", "rank"}, o.Standby):
		return fmt.Errorf("--standby: %q is neither spare nor rank nor false", o.Standby)
	case o.WarmUpTimeout <= 0:
		return fmt.Errorf("--warm-up-timeout: %s is not more than 0", o.WarmUpTimeout)
	case o.ManagerTimeout < 0:
		return fmt.Errorf("--manager-timeout: %s is less than 0", o.ManagerTimeout)
	case o.Process.StopTimeout < 0:
		return fmt.Errorf("--stop-timeout: %s is less than 0", o.Process.StopTimeout)
	case o.Process.GPUMemoryTimeout < 0:
		return fmt.Errorf("--gpu-memory-timeout: %s is less than 0", o.Process.GPUMemoryTimeout)
	}
	return nil
}
