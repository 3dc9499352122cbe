// Package simulate is kubectl lockstep simulate: it plays TrainingJobs in the policy lab, and prints what comes of it.
package simulate

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/lab"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// options are the flags.
type options struct {
	genericiooptions.IOStreams
	file           string
	compare        []string
	failures       failures
	cluster        cluster
	sweep, picture string
	replay         string
	suggest        bool
	length         time.Duration
	output         string
	plays          int
	seed           uint64
	costs          lab.Costs
}

const example = `  # A month of a job, with the failures of the training of Llama 3
  kubectl lockstep simulate -f job.yaml

  # A job of a cluster, as it runs
  kubectl get trainingjob llama -o yaml | kubectl lockstep simulate -f -

  # The same failures against another policy
  kubectl lockstep simulate -f job.yaml --compare other.yaml

  # How long a silent node may take to come back
  kubectl lockstep simulate -f job.yaml \
    --sweep 'rules[node-may-return].afterSeconds=10s..5m' --svg sweep.svg

  # Better times for the policy, as YAML
  kubectl lockstep simulate -f job.yaml --suggest

  # What would have been different with the incidents that a job has had
  kubectl get trainingjob llama -o yaml > llama.yaml
  kubectl lockstep simulate -f job.yaml --replay llama.yaml

  # The same, with nothing but its own policy and whole-job restarts
  kubectl get trainingjob llama -o yaml | kubectl lockstep simulate --replay -

  # Failures that you have counted, or a list of incidents
  kubectl lockstep simulate -f job.yaml --failures counted.yaml
  kubectl lockstep simulate -f job.yaml \
    --failures incidents.csv --counted-nodes 128

  # The failures that the jobs of a cluster have had
  kubectl get trainingjobs -A -o yaml > jobs.yaml
  kubectl lockstep simulate -f job.yaml --failures jobs.yaml

  # All figures, for other programs
  kubectl lockstep simulate -f job.yaml --compare other.yaml -o json

  # The HyperNodes of a cluster, and a program that checkpoints every 10 minutes
  kubectl get hypernodes,nodes -o yaml > cluster.yaml
  kubectl lockstep simulate -f job.yaml \
    --topology cluster.yaml --checkpoint-interval 10m`

// New is the command.
func New(streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{
		IOStreams: streams, costs: lab.DefaultCosts(), failures: failures{now: time.Now, in: streams.In}, cluster: cluster{in: streams.In},
	}
	c := &cobra.Command{
		Use:   "simulate -f JOB.yaml",
		Short: "Play failures against the restart policy of a TrainingJob",
		Long: `Play failures against the restart policy of a TrainingJob, with the decisions of
the manager itself and a virtual clock. Print which share of the time it trains
(ETTR), and what the rest is lost to: beside the same job under a policy that
restarts all of it with every failure, and beside a job that is never down.
Nothing is sent to a cluster. The same seed gives the same answer.`,
		Example: example,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return notByName(args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(cmd.Flags()); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	c.SetFlagErrorFunc(flagError)
	f := c.Flags()
	f.StringVarP(&o.file, "filename", "f", "", "file with the TrainingJob; - for standard input")
	f.StringSliceVar(&o.compare, "compare", nil, "files with TrainingJobs to play beside it")
	f.StringVar(&o.sweep, "sweep", "", "time of the policy to play from one value to another, such as rules[node-may-return].afterSeconds=10s..5m")
	f.StringVar(&o.picture, "svg", "", "file for a picture of the sweep")
	f.BoolVar(&o.suggest, "suggest", false, "search the times of the policy for better ones")
	f.StringVar(&o.replay, "replay", "", "file with a TrainingJob whose incidents are played in place of drawn failures; what kubectl get -o yaml prints")
	spanVar(f, &o.length, "for", 30*24*time.Hour, "how long to play, such as 12h or 365d")
	f.IntVar(&o.plays, "plays", 5, "how often to play, each time with other failures")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the random numbers")
	f.StringVarP(&o.output, "output", "o", "", "json for other programs; default: text")
	o.failures.addFlags(f)
	o.cluster.addFlags(f)
	addCosts(f, &o.costs)
	return c
}

// check says what is wrong with the flags, before any file is read.
func (o *options) check(f *pflag.FlagSet) error {
	if err := checkFlags(f); err != nil {
		return err
	}
	if err := o.checkStandardInput(); err != nil {
		return err
	}
	if err := o.checkGiven(f); err != nil {
		return err
	}
	switch {
	case o.output != "" && o.output != "json":
		return fmt.Errorf("--output is %q, and has to be json, or left out for text", o.output)
	case o.length <= 0:
		return fmt.Errorf("--for is %s, and has to be positive", o.length)
	case o.failures.repair <= 0:
		return fmt.Errorf("--repair is %s, and has to be positive", o.failures.repair)
	case o.plays < 1:
		return fmt.Errorf("--plays is %d, and has to be 1 at least", o.plays)
	}
	o.cluster.gpusGiven = f.Changed("gpus-per-node")
	if err := o.cluster.check(); err != nil {
		return err
	}
	return checkCosts(&o.costs)
}

func (o *options) run(ctx context.Context) error {
	// A play makes much garbage and keeps little: less frequent collection costs some MiB and saves a fifth of the time.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	model, err := o.readModel()
	if err != nil {
		return err
	}
	replay, err := o.plannedReplay()
	if err != nil {
		return err
	}
	studies, err := o.studies(model, replay)
	if err != nil {
		return err
	}
	if replay != nil {
		return o.runReplay(ctx, replay, studies)
	}
	sweep, err := o.plannedSweep(studies[0])
	if err != nil {
		return err
	}
	for _, s := range studies {
		if err := o.play(ctx, s); err != nil {
			return err
		}
	}
	report := o.report(model, studies)
	if o.output == "" {
		o.print(report) // before the sweep, which takes a while
	}
	if sweep != nil {
		if report.Sweep, err = o.playSweep(ctx, sweep); err != nil {
			return err
		}
	}
	switch {
	case o.output != "":
		return printJSON(o.Out, report)
	case sweep != nil:
		o.printSweep(report.Sweep, o.sweepHint(sweep, report.Sweep.Points))
	}
	if o.suggest {
		return o.runSuggest(ctx, studies[0])
	}
	return nil
}

// readModel reads the failures, and warns where they were counted for too short a time.
func (o *options) readModel() (*lab.Model, error) {
	model, err := o.failures.read()
	if err == nil && model.NodeDays > 0 && model.NodeDays < 1 {
		o.warn(fmt.Sprintf("--failures %s: the jobs have run for %.2g node-days, which is too short to tell how often they fail: give jobs that have run for a day or more",
			nameOf(o.failures.from), model.NodeDays))
	}
	return model, err
}

func (o *options) warn(text string) { fmt.Fprintln(o.ErrOut, "Warning:", text) }

func (o *options) runReplay(ctx context.Context, r *replay, studies []*study) error {
	played, err := r.play(ctx, studies)
	if err != nil {
		return err
	}
	if o.output != "" {
		return printJSON(o.Out, &Report{Replay: played})
	}
	played.print(o.Out)
	return nil
}

// wholeJob names the job under a policy that restarts all of it with every failure.
const wholeJob = "whole-job restarts"

// studies are the jobs to play, all on the same nodes: the one whose incidents are replayed, the one that is asked for, those beside
// it, and the first one under whole-job restarts.
func (o *options) studies(model *lab.Model, replay *replay) ([]*study, error) {
	studies, err := o.readStudies(replay)
	if err != nil {
		return nil, err
	}
	if replay != nil {
		o.cluster.lost, o.cluster.named = replay.history.LostNodes(), replay.history.Nodes()
	}
	causes, err := model.Rates()
	if err != nil {
		return nil, err
	}
	site, err := o.cluster.site(studies, o.warn)
	if err != nil {
		return nil, err
	}
	for _, s := range studies {
		podsOn, err := site.podsOn(s.job)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		s.setup = lab.Setup{
			Job: s.job, HyperNodes: site.hyperNodes, PodsOn: podsOn, Causes: causes, Lemons: model.Lemons, For: o.length, Costs: &o.costs,
		}
	}
	return studies, nil
}

func (o *options) readStudies(replay *replay) ([]*study, error) {
	var studies []*study
	if replay != nil {
		studies = append(studies, &study{name: asItWas, job: replay.recorded})
	}
	if o.file != "" {
		job, err := o.readJob("-f", o.file)
		if err != nil {
			return nil, err
		}
		studies = append(studies, &study{name: title(o.file, job), job: job})
	}
	for _, file := range o.compare {
		other, err := o.readJob("--compare", file)
		if err != nil {
			return nil, err
		}
		studies = append(studies, &study{name: title(file, other), job: other})
	}
	restarts := studies[0].job
	if replay != nil && o.file != "" {
		restarts = studies[1].job
	}
	return append(studies, &study{name: wholeJob, job: lab.WholeJobRestarts(restarts)}), nil
}

// title is how a table calls the job of a file.
func title(file string, job *v1alpha1.TrainingJob) string {
	if file == "-" {
		return job.Name
	}
	return strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
}

// play plays a study, if that has not been done.
func (o *options) play(ctx context.Context, s *study) error {
	var err error
	if s.results == nil {
		if s.results, err = lab.PlayMany(ctx, s.setup, o.plays, o.seed); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// vary is a study with a time of its policy changed, as the API server would take it.
func (s *study) vary(field string, d time.Duration) (*study, error) {
	job, err := lab.Vary(s.job, field, int32(min(d.Seconds(), math.MaxInt32)))
	if err != nil {
		return nil, err
	}
	if job, err = Admit(job); err != nil {
		return nil, fmt.Errorf("with %s: %w", d, err)
	}
	out := &study{name: d.String(), job: job, setup: s.setup}
	out.setup.Job = job
	return out, nil
}

// pods is how many pods a job has, spares among them.
func pods(job *v1alpha1.TrainingJob) int { return int(gang.Replicas(job) + gang.Spares(job)) }
