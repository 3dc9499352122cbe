package main

import (
	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/timeline"
)

func newTimeline(a app) *cobra.Command {
	j, output := &jobs{config: a.flags}, format("")
	c := &cobra.Command{
		Use:   "timeline NAME...",
		Short: "Show the incidents of a TrainingJob, with their phases to scale",
		Long: `Show each incident of a TrainingJob that its status remembers, from the first
signal until all ranks were back: what happened when, and a bar whose length is
the time. The bars of one job have one scale.

  . detect         the program has ended, and the manager has not seen it yet
  - decide         until the first step: ranks may come back alone till then
  x stop           with supervisors: until the programs of all ranks have ended
  # place          until the last replacement has its node
  ~ wait for room  the same, from when the first of them has to wait for one
  | barrier        with supervisors: until all ranks are at the barrier
  = start          until all ranks are ready; all of it where none was replaced

Kubernetes notes to the second when a program ended and when a pod got its node.

The ETTR is the share of the time since all ranks were first ready in which they
were, suspensions apart. Steps that were lost since the last checkpoint are not
known, and count as trained. Of a job in a file it is that at the last change
which the status records.

An open incident shows its next step. Where that is long past its time, there
may be no manager that takes it: see kubectl lockstep check. The exit code is 0
where there is a timeline, and 1 where there is none.`,
		Example: `  # The incidents of a job
  kubectl lockstep timeline llama

  # Those of a job that was saved with kubectl get -o yaml
  kubectl lockstep timeline -f llama.yaml`,
		RunE: func(c *cobra.Command, names []string) error {
			found, err := j.get(c.Context(), names)
			if err != nil {
				return err
			}
			var all timeline.Jobs
			for _, job := range found {
				all.Jobs = append(all.Jobs, timeline.Of(job, j.at))
			}
			return output.print(a.Out, all, func() error {
				for i := range all.Jobs {
					timeline.Print(a.Out, &all.Jobs[i])
				}
				return nil
			})
		},
	}
	j.addFlags(c)
	output.addFlag(c)
	return c
}
