// Package simulate is kubectl lockstep simulate: it plays TrainingJobs in the policy lab, and prints what comes of it.
package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/lab"
)

const example = `  # A month of a job, with the failures of the training of Llama 3
  kubectl lockstep simulate -f job.yaml

  # A job of a cluster, as it runs
  kubectl get trainingjob llama -o yaml | kubectl lockstep simulate -f -

  # The same failures against another policy
  kubectl lockstep simulate -f job.yaml --compare other.yaml

  # How long a silent node may take to come back
  kubectl lockstep simulate -f job.yaml \
    --sweep 'rules[node-may-return].afterSeconds=10s..5m'

  # Better times for the policy, as YAML, and for checkpoints, and spares
  kubectl lockstep simulate -f job.yaml --suggest

  # What would have been different with the incidents that a job has had
  kubectl get trainingjob llama -o yaml > llama.yaml
  kubectl lockstep simulate -f job.yaml --replay llama.yaml

  # Failures that you have counted
  kubectl lockstep simulate -f job.yaml --failures counted.yaml

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
	o := &options{IOStreams: streams, length: 30 * day, repair: lab.DefaultRepair, costs: lab.DefaultCosts()}
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
				return fmt.Errorf("simulate takes no arguments: give a file by -f; of a job of the cluster:\n"+
					"  kubectl get trainingjob %s -o yaml | kubectl lockstep simulate -f -", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.addFlags(c)
	return c
}

func (o *options) run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	// A play makes much garbage and keeps little: less frequent collection costs some MiB and saves a fifth of the time.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	model, err := o.readModel()
	if err != nil {
		return err
	}
	if model.NodeDays > 0 && model.NodeDays < 1 {
		o.warn(fmt.Sprintf("--failures %s: the jobs have run for %.2g node-days, which is too short to tell how often they fail",
			o.failures, model.NodeDays))
	}
	recorded, history, err := o.readReplay()
	if err != nil {
		return err
	}
	studies, err := o.studies(model, recorded, history)
	if err != nil {
		return err
	}
	report, text := &Report{}, o.Out
	if o.output != "" {
		text = io.Discard
	}
	if recorded != nil {
		report.Replay, err = o.playReplay(ctx, text, history, studies)
	} else {
		err = o.playAll(ctx, text, model, studies, report)
	}
	if err != nil || o.output == "" {
		return err
	}
	e := json.NewEncoder(o.Out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(report)
}

func (o *options) warn(text string) { fmt.Fprintln(o.ErrOut, "Warning:", text) }

// playAll plays the studies, and a sweep of the first one or a search for a better one. Text is printed as soon as it is known.
func (o *options) playAll(ctx context.Context, text io.Writer, model *lab.Model, studies []*study, report *Report) error {
	var err error
	if report.Sweep, err = o.plannedSweep(studies[0]); err != nil {
		return err
	}
	if err := o.play(ctx, studies...); err != nil {
		return err
	}
	o.fill(report, model, studies)
	o.print(text, report)
	if report.Sweep != nil {
		if err := o.playSweep(ctx, report.Sweep); err != nil {
			return err
		}
		report.Sweep.print(text)
	}
	if o.suggest {
		return o.runSuggest(ctx, studies[0])
	}
	return nil
}

// wholeJob names the job under a policy that restarts all of it with every failure.
const wholeJob = "whole-job restarts"

// studies are the jobs to play, all on the same nodes: the one whose incidents are replayed, the one that is asked for, those beside
// it, and under whole-job restarts the one that is asked for, or replayed.
func (o *options) studies(model *lab.Model, recorded *v1alpha1.TrainingJob, history *lab.History) ([]*study, error) {
	var studies []*study
	if recorded != nil {
		studies = append(studies, &study{name: asItWas, job: recorded})
	}
	asked := 0
	files := o.compare
	if o.file != "" {
		asked, files = len(studies), append([]string{o.file}, files...)
	}
	for _, file := range files {
		job, err := o.readJob(file)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
		if file == "-" {
			name = job.Name
		}
		studies = append(studies, &study{name: name, job: job})
	}
	if err := o.checkCopies(studies); err != nil {
		return nil, err
	}
	o.learn(studies[asked].job)
	studies = append(studies, &study{name: wholeJob, job: lab.WholeJobRestarts(studies[asked].job)})
	causes, err := model.Rates()
	if err != nil {
		return nil, err
	}
	site, err := o.site(studies, history)
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
