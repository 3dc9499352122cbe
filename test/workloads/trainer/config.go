// Flags, and what Lockstep and Volcano say through the environment.

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/test/workloads/trainer/model"
)

type config struct {
	rank, world, incarnation int
	resume                   bool
	attempt, reason, home    string

	run                      string
	steps, every, keep       int
	logEvery                 int
	stepTime                 time.Duration
	local, shared            string
	requireCheckpoint        bool
	survivorsSave            bool
	http                     string
	peerTimeout, joinTimeout time.Duration

	listen, advertise, rendezvous, peers, task string

	seed, dataSeed uint64
	batch          int
	shape          model.Shape
	optimizer      model.Optimizer
}

// envPrefix and a flag's name in capitals, with underscores, is the variable that sets its default.
const envPrefix = "TRAINER_"

func envName(name string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

func (c *config) register(fs *flag.FlagSet, env func(string) string) {
	fs.IntVar(&c.rank, "rank", -1, "rank of this process; by default RANK, LOCKSTEP_TASK_INDEX or VC_TASK_INDEX, the first that is set")
	fs.IntVar(&c.world, "world", 0, "number of ranks; by default that of -peers, WORLD_SIZE, or VC_<TASK>_NUM")
	fs.IntVar(&c.incarnation, "incarnation", -1, "incarnation of this rank; by default LOCKSTEP_INCARNATION, or 0")
	fs.StringVar(&c.run, "run", env("LOCKSTEP_JOB"), "name of the run: ranks of different runs refuse each other; by default LOCKSTEP_JOB")
	fs.IntVar(&c.steps, "steps", 200, "steps to train")
	fs.DurationVar(&c.stepTime, "step-time", 0, "time that a step takes at least, so that there is time to disturb the run")
	fs.IntVar(&c.every, "checkpoint-every", 20, "steps between checkpoints")
	fs.IntVar(&c.keep, "keep", 3, "checkpoints to keep in each folder, 2 at least")
	fs.IntVar(&c.logEvery, "log-every", 1, "steps between lines with the loss")
	fs.StringVar(&c.local, "local", "/var/local/trainer", "folder on the node, of this run alone; its ranks on the node may have the same")
	fs.StringVar(&c.shared, "shared", "/shared", "folder that all ranks of this run share, and no other run")
	fs.BoolVar(&c.requireCheckpoint, "require-checkpoint", false, "with LOCKSTEP_RESUME=true, exit with 5 instead of a start from step 0")
	fs.BoolVar(&c.survivorsSave, "survivors-save", false, "save the last whole step when a peer is lost, and at SIGTERM, before this rank exits")
	fs.StringVar(&c.http, "http", ":8081", "address for POST /checkpoint, GET /healthz and GET /livez")
	fs.DurationVar(&c.peerTimeout, "peer-timeout", 10*time.Second, "silence after which a peer is lost")
	fs.DurationVar(&c.joinTimeout, "join-timeout", 5*time.Minute, "time to wait for all ranks")
	fs.StringVar(&c.listen, "listen", "", "rank 0: address to listen at; by default the port of its peer entry, MASTER_PORT, or :29500")
	fs.StringVar(&c.advertise, "advertise", "", "rank 0: host or host:port that others reach it at, for -rendezvous=shared; by default POD_IP, or this host's name")
	fs.StringVar(&c.rendezvous, "rendezvous", "auto", "how ranks find rank 0: peers, hosts (MASTER_ADDR or VC_<TASK>_HOSTS), shared (a file), or auto, the first that is known")
	fs.StringVar(&c.peers, "peers", "", "host:port of every rank, in order, separated by commas; only rank 0's is connected to")
	fs.StringVar(&c.task, "task", "worker", "task whose VC_<TASK>_HOSTS and VC_<TASK>_NUM are read")
	fs.Uint64Var(&c.seed, "seed", 1, "seed of the initial weights and the teacher")
	fs.Uint64Var(&c.dataSeed, "data-seed", 2, "seed of the samples")
	fs.IntVar(&c.batch, "batch", 0, "samples of a global batch, a multiple of the ranks; by default 16 for each rank")
	fs.IntVar(&c.shape.In, "inputs", 16, "inputs of the network")
	fs.IntVar(&c.shape.Hidden, "hidden", 32, "width of its hidden layer")
	fs.Float64Var(&c.optimizer.Rate, "rate", 0.01, "learning rate")
	fs.Float64Var(&c.optimizer.Momentum, "momentum", 0.9, "momentum")
	fs.Float64Var(&c.optimizer.Decay, "decay", 0.001, "the rate of step n is rate/(1+decay*n)")
}

// parse reads flags and the environment. An error names the flag, and says what to do.
func parse(args []string, env func(string) string, out io.Writer) (*config, error) {
	c := &config{}
	fs := flag.NewFlagSet("trainer", flag.ContinueOnError)
	fs.SetOutput(out)
	c.register(fs, env)
	var errs []error
	fs.VisitAll(func(f *flag.Flag) {
		if v := env(envName(f.Name)); v != "" {
			if err := fs.Set(f.Name, v); err != nil {
				errs = append(errs, fmt.Errorf("%s=%q: %w; set it to what -%s takes", envName(f.Name), v, err, f.Name))
			}
		}
	})
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		errs = append(errs, fmt.Errorf("unknown argument %q: everything is a flag, such as -steps=100", fs.Arg(0)))
	}
	errs = append(errs, c.fromEnvironment(env), c.validate())
	return c, errors.Join(errs...)
}

// fromEnvironment fills what no flag has set.
func (c *config) fromEnvironment(env func(string) string) error {
	var errs []error
	number := func(to *int, unset int, names ...string) {
		for _, name := range names {
			if *to != unset || env(name) == "" {
				continue
			}
			n, err := strconv.Atoi(env(name))
			if err != nil {
				errs = append(errs, fmt.Errorf("%s=%q is not a number: set it to one, or unset it", name, env(name)))
			}
			*to = n
		}
	}
	task := strings.ToUpper(strings.ReplaceAll(c.task, "-", "_"))
	number(&c.rank, -1, "RANK", "LOCKSTEP_TASK_INDEX", "VC_TASK_INDEX")
	if c.peers != "" && c.world == 0 {
		c.world = len(strings.Split(c.peers, ","))
	}
	number(&c.world, 0, "WORLD_SIZE", "VC_"+task+"_NUM")
	number(&c.incarnation, -1, "LOCKSTEP_INCARNATION")
	c.incarnation = max(c.incarnation, 0)
	if c.batch == 0 {
		c.batch = 16 * c.world
	}
	if c.run == "" {
		c.run = "local"
	}
	c.resume = env("LOCKSTEP_RESUME") == "true"
	c.attempt, c.reason, c.home = env("LOCKSTEP_ATTEMPT"), env("LOCKSTEP_RESTART_REASON"), env("LOCKSTEP_HYPERNODE")
	errs = append(errs, c.chooseRendezvous(env, "VC_"+task+"_HOSTS"))
	return errors.Join(errs...)
}

func (c *config) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.world >= 1, "-world is %d: set it to the number of ranks, 1 at least", c.world)
	check(c.rank >= 0 && (c.rank < c.world || c.world < 1), "-rank is %d in a world of %d: set it from 0 to one less than -world", c.rank, c.world)
	check(c.steps >= 1, "-steps is %d: set it to 1 at least", c.steps)
	check(c.every >= 1, "-checkpoint-every is %d: set it to 1 at least; above -steps, only the last step is saved", c.every)
	check(c.keep >= 2, "-keep is %d: set it to 2 at least, because a rank may have saved a step that another has not", c.keep)
	check(c.logEvery >= 1, "-log-every is %d: set it to 1 at least", c.logEvery)
	check(c.stepTime >= 0, "-step-time is %s: set it to 0 or more", c.stepTime)
	check(c.peerTimeout >= 100*time.Millisecond, "-peer-timeout is %s: set it to 100ms at least", c.peerTimeout)
	check(c.joinTimeout > 0, "-join-timeout is %s: set it above 0", c.joinTimeout)
	check(c.local != "" && c.shared != "", "-local and -shared: set both to a folder")
	check(c.local == "" || c.local != c.shared, "-local and -shared are both %q: set them to different folders", c.local)
	check(c.world < 1 || (c.batch >= c.world && c.batch%c.world == 0), "-batch is %d: set it to a multiple of -world, which is %d", c.batch, c.world)
	check(c.shape.In >= 1, "-inputs is %d: set it to 1 at least", c.shape.In)
	check(c.shape.Hidden >= 1, "-hidden is %d: set it to 1 at least", c.shape.Hidden)
	return errors.Join(errs...)
}

// fingerprint is of everything that decides the bits of the loss. The number of steps does
// not: a run may be made longer.
func (c *config) fingerprint() string {
	return fmt.Sprintf("world=%d,seed=%d,data-seed=%d,batch=%d,inputs=%d,hidden=%d,rate=%g,momentum=%g,decay=%g",
		c.world, c.seed, c.dataSeed, c.batch, c.shape.In, c.shape.Hidden, c.optimizer.Rate, c.optimizer.Momentum, c.optimizer.Decay)
}

func hostname() string {
	h, err := os.Hostname()
	if err != nil {
		return "127.0.0.1"
	}
	return h
}
